/**
 * Reloading the file of an open document without losing text that is typed meanwhile.
 */
import { CellChange, ISharedCell, ISharedNotebook } from '@jupyter/ydoc';
import { DocumentRegistry } from '@jupyterlab/docregistry';
import { ICell, INotebookContent } from '@jupyterlab/nbformat';
import { INotebookModel } from '@jupyterlab/notebook';

/**
 * Reload the file of a document, and let `take` apply its content to the document. JupyterLab would
 * replace all cells, and lose unsaved text and the cursor.
 */
export async function revertInto(
  context: DocumentRegistry.IContext<INotebookModel>,
  take: (content: INotebookContent) => void
): Promise<void> {
  const { model } = context;
  // `revert` is the public way to make this version of the file the base of the document.
  model.fromJSON = content => take(content as INotebookContent);
  try {
    await context.revert();
  } finally {
    delete (model as Partial<INotebookModel>).fromJSON;
  }
}

type Typed = Pick<ICell, 'cell_type' | 'source'>;

/**
 * Reload a document, and return the cells that the user edits meanwhile, by cell id. These edits
 * would be lost, because JupyterLab replaces all cells when the file has arrived.
 */
export async function typedDuring(
  model: INotebookModel,
  reload: () => Promise<void>
): Promise<Map<string, Typed>> {
  const typed = new Map<string, Typed>();
  const onChange = (cell: ISharedCell, change: CellChange): void => {
    if (change.sourceChange) {
      const { cell_type, source } = cell;
      typed.set(cell.getId(), { cell_type, source });
    }
  };
  const cells = model.sharedModel.cells.slice();
  cells.forEach(cell => cell.changed.connect(onChange));
  try {
    await reload();
  } finally {
    cells.forEach(cell => cell.changed.disconnect(onChange));
  }
  return typed;
}

/** Put typed text back into its cell, or into a new cell at the end if the cell is gone. */
export function putBack(
  shared: ISharedNotebook,
  id: string,
  typed: Typed
): void {
  const cell = shared.cells.find(cell => cell.getId() === id);
  if (cell) {
    cell.setSource([typed.source].flat().join(''));
  } else {
    shared.addCell(typed as ICell);
  }
}
