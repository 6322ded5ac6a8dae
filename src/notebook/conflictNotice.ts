/**
 * Notification about cells that the user and the agent have both changed while the page was
 * disconnected.
 */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
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
      'While this page was disconnected, you and the agent both changed a cell of %2. Your version was kept, as was any cell that one of you deleted.',
      'While this page was disconnected, you and the agent both changed %1 cells of %2. Your versions were kept, as was any cell that one of you deleted.',
      conflicts.length,
      PathExt.basename(path)
    ),
    {
      autoClose: false,
      actions: [
        {
          label: trans.__('Compare'),
          caption: trans.__('Show both versions'),
          callback: () => {
            void showDialog({
              title: trans.__('Changed by you and by the agent'),
              body: new Versions(conflicts, trans),
              buttons: [Dialog.okButton({ label: trans.__('Close') })]
            });
          }
        }
      ]
    }
  );
}

/** Both versions of each cell. */
class Versions extends Widget {
  constructor(conflicts: IConflict[], trans: TranslationBundle) {
    super();
    for (const { mine, theirs } of conflicts) {
      this._add(trans.__('Your version, in the notebook'), mine, trans);
      this._add(trans.__('The agent’s version'), theirs, trans);
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
