import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { Cell, CodeCell } from '@jupyterlab/cells';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IOutputAreaModel } from '@jupyterlab/outputarea';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IAttachedCell } from '../api/attachments';
import { cellReference, errorOf } from '../mentions/cells';
import { IChatPanel } from '../tokens';
import { failedIcon, primeIcon } from './icons';

export namespace CellCommandIDs {
  export const ask = 'prime:ask-about-cell';
  export const fix = 'prime:fix-error';
}

const NO_ARGS = { args: { type: 'object', properties: {} } } as const;

/** Commands about a cell, for the cell's toolbar and menu, the palette and shortcuts. */
export const cellCommands: JupyterFrontEndPlugin<void> = {
  id: 'prime_ext:cell-commands',
  description: 'Asks the Prime agent about a cell, or to fix its error.',
  autoStart: true,
  requires: [IChatPanel, INotebookTracker],
  optional: [ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    panel: IChatPanel,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('prime_ext');
    const { commands, serviceManager } = app;

    /** Return the path of the current notebook. */
    const path = (): string =>
      serviceManager.contents.localPath(tracker.currentWidget!.context.path);
    /** Return the selected cells, including the active one. */
    const selected = (): IAttachedCell[] => {
      const { content } = tracker.currentWidget!;
      return content.widgets
        .map((cell, index) => ({ cell, index }))
        .filter(({ cell }) => content.isSelectedOrActive(cell))
        .map(({ cell, index }) => cellReference(cell.model, index));
    };
    const hasFailed = (): boolean =>
      errorOf(tracker.activeCell?.model ?? null) !== null;

    commands.addCommand(CellCommandIDs.ask, {
      label: trans.__('Ask Prime About This Cell'),
      caption: trans.__('Ask Prime about the selected cells'),
      describedBy: NO_ARGS,
      icon: primeIcon,
      isEnabled: () => tracker.activeCell !== null,
      execute: () => {
        panel.attach({ type: 'notebook', value: path(), cells: selected() });
        panel.open();
      }
    });
    commands.addCommand(CellCommandIDs.fix, {
      label: trans.__('Fix This Error'),
      caption: trans.__('Ask Prime to fix this error'),
      describedBy: NO_ARGS,
      icon: failedIcon,
      isEnabled: hasFailed,
      isVisible: hasFailed,
      execute: () => {
        const { activeCellIndex } = tracker.currentWidget!.content;
        const cell = cellReference(tracker.activeCell!.model, activeCellIndex);
        panel.attach({ type: 'error', value: path(), cells: [cell] });
        if (panel.draft.trim() === '') {
          panel.compose(trans.__('Fix this error.'));
        } else {
          panel.open();
        }
      }
    });
    for (const command of Object.values(CellCommandIDs)) {
      palette?.addItem({ command, category: trans.__('Prime') });
    }

    const changed = (): void => {
      commands.notifyCommandChanged(CellCommandIDs.ask);
      commands.notifyCommandChanged(CellCommandIDs.fix);
    };
    // Keep the outputs, since the cell may be disposed before another one becomes active.
    let watched: IOutputAreaModel | null = null;
    const watch = (cell: Cell | null): void => {
      watched?.changed.disconnect(changed);
      watched = cell instanceof CodeCell ? cell.model.outputs : null;
      watched?.changed.connect(changed);
      changed();
    };
    tracker.activeCellChanged.connect((_, cell) => watch(cell));
    watch(tracker.activeCell);
  }
};
