/**
 * Notifications about a notebook that was changed in the page and, independently, in the file.
 */
import {
  Dialog,
  Notification,
  showDialog,
  showErrorMessage
} from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { IConflict } from './mergeCells';

export function tellConflicts(
  path: string,
  conflicts: IConflict[],
  trans: TranslationBundle
): void {
  Notification.warning(
    trans._n(
      'A cell of %2 was changed both here and in the file. Your version was kept, as was any cell that was deleted on one side only.',
      '%1 cells of %2 were changed both here and in the file. Your versions were kept, as was any cell that was deleted on one side only.',
      conflicts.length,
      PathExt.basename(path)
    ),
    {
      autoClose: false,
      actions: [
        {
          label: trans.__('Compare'),
          caption: trans.__('Show both versions'),
          callback: () => show(conflicts, trans)
        }
      ]
    }
  );
}

/**
 * Notify the user of a file that could not be merged with the unsaved changes in the page.
 *
 * @returns A function that removes the notification.
 */
export function tellBehind(
  path: string,
  compare: () => Promise<IConflict[]>,
  trans: TranslationBundle
): () => void {
  const id = Notification.warning(
    trans.__(
      'The file of %1 was changed, and your unsaved changes here could not be merged with it. When you save, JupyterLab asks which version to keep.',
      PathExt.basename(path)
    ),
    {
      autoClose: false,
      actions: [
        {
          label: trans.__('Compare'),
          caption: trans.__('Show both versions'),
          callback: event => {
            // The notification stays until the user has decided.
            event.preventDefault();
            compare().then(
              differences => show(differences, trans),
              reason => {
                void showErrorMessage(
                  trans.__('The file could not be read'),
                  reason
                );
              }
            );
          }
        }
      ]
    }
  );
  return () => Notification.dismiss(id);
}

function show(conflicts: IConflict[], trans: TranslationBundle): void {
  void showDialog({
    title: trans.__('Changed here and in the file'),
    body: new Versions(conflicts, trans),
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
}

/** Both versions of each cell. */
class Versions extends Widget {
  constructor(conflicts: IConflict[], trans: TranslationBundle) {
    super();
    if (conflicts.length === 0) {
      this.node.textContent = trans.__('No cell differs in its text.');
    }
    for (const { mine, theirs } of conflicts) {
      this._add(trans.__('Your version, in the notebook'), mine, trans);
      this._add(trans.__('The version in the file'), theirs, trans);
    }
  }

  private _add(
    name: string,
    source: string | null,
    trans: TranslationBundle
  ): void {
    const heading = document.createElement('h3');
    heading.textContent = name;
    const text = document.createElement('pre');
    text.textContent = source ?? trans.__('(deleted)');
    this.node.append(heading, text);
  }
}
