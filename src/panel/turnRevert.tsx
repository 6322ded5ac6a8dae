import { Dialog, showDialog } from '@jupyterlab/apputils';
import * as React from 'react';

import { IRevertedCell, ITurnItem } from '../model/items';
import { usePanel, usePanelState } from './context';
import { Versions } from './diffView';
import { reasonText } from './reasonText';
import { isLeft, revertLine } from './revertText';
import { isBusy } from './state';

/** The button that reverts the agent's changes of a turn, until it was reverted. */
export function RevertTurn(props: { item: ITurnItem }): JSX.Element | null {
  const { changes, revert } = props.item;
  const { trans } = usePanel();
  return revert === null && changes.cells + changes.files > 0 ? (
    <RevertButton item={props.item}>
      {trans.__('Revert this turn’s edits')}
    </RevertButton>
  ) : null;
}

/** The outcome of a revert: what was not reverted, with both versions. */
export function RevertOutcome(props: { item: ITurnItem }): JSX.Element | null {
  const { revert } = props.item;
  const { trans } = usePanel();
  if (revert === null) {
    return null;
  }
  const cells = revert.cells.filter(isLeft);
  const files = revert.files.filter(isLeft);
  return (
    <div className="jp-prime-Revert">
      <div>{revertLine(revert, trans)}</div>
      {revert.unsaved && (
        <div className="jp-prime-Restore-detail">{revert.unsaved}</div>
      )}
      {cells.map(cell => (
        <LeftCell key={cell.id} cell={cell} />
      ))}
      {files.map(file => (
        <div key={file.path} className="jp-prime-Restore-detail">
          <code>{file.path}</code> {reasonText(file, trans)}
        </div>
      ))}
      {cells.length + files.length > 0 && (
        <RevertButton item={props.item}>
          {trans.__('Retry the rest')}
        </RevertButton>
      )}
    </div>
  );
}

/** A cell that was not reverted, with its current source and its source before the turn. */
function LeftCell(props: { cell: IRevertedCell }): JSX.Element {
  const { id, current, earlier } = props.cell;
  const { controller, notebookView, trans } = usePanel();
  return (
    <div className="jp-prime-Revert-cell" data-cell={id}>
      <div className="jp-prime-Restore-detail">
        {reasonText(props.cell, trans)}{' '}
        {current !== null && (
          <button
            type="button"
            className="jp-prime-Link"
            onClick={() => {
              const { notebook } = controller;
              if (notebook !== null) {
                notebookView.revealCell(notebook, id);
              }
            }}
          >
            {trans.__('Show the cell')}
          </button>
        )}
      </div>
      {current !== earlier && (
        <Versions
          here={current ?? ''}
          other={earlier ?? ''}
          otherName={trans.__('Before the turn')}
        />
      )}
    </div>
  );
}

function RevertButton(props: {
  item: ITurnItem;
  children: React.ReactNode;
}): JSX.Element {
  const { turn, changes } = props.item;
  const { controller, trans } = usePanel();
  const busy = isBusy(usePanelState());
  const [running, setRunning] = React.useState(false);
  const revert = async (): Promise<void> => {
    // Confirm for files only: a revert of cells can be undone in the notebook.
    if (changes.files > 0) {
      const { button } = await showDialog({
        title: trans.__('Revert the edits of this turn?'),
        body: trans._n(
          'A file is reverted too, and that cannot be undone. Whatever was changed since is left as it is.',
          '%1 files are reverted too, and that cannot be undone. Whatever was changed since is left as it is.',
          changes.files
        ),
        buttons: [
          Dialog.cancelButton(),
          Dialog.okButton({ label: trans.__('Revert') })
        ]
      });
      if (!button.accept) {
        return;
      }
    }
    setRunning(true);
    await controller.revertTurn(turn ?? '').finally(() => setRunning(false));
  };
  return (
    <button
      type="button"
      className="jp-prime-Link"
      disabled={busy || running}
      title={
        busy
          ? trans.__('Available once the agent is done')
          : trans.__(
              'Reverts the cells and files that the agent changed. Whatever was changed since is left as it is.'
            )
      }
      onClick={() => {
        void revert();
      }}
    >
      {running ? trans.__('Reverting…') : props.children}
    </button>
  );
}
