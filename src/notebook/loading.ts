/**
 * Loading the file of an open document anew, without losing what is typed meanwhile.
 */
import { CellChange, ISharedCell, ISharedNotebook } from '@jupyter/ydoc';
import { DocumentRegistry } from '@jupyterlab/docregistry';
import { ICell, INotebookContent } from '@jupyterlab/nbformat';
import { INotebookModel } from '@jupyterlab/notebook';

/**
 * Load the file of a document anew, but leave it to `take` what becomes of the document. Lab would
 * replace all cells, with what is typed into them and the cursor there.
 */
export async function revertInto(
  context: DocumentRegistry.IContext<INotebookModel>,
  take: (content: INotebookContent) => void
): Promise<void> {
  const { model } = context;
  // The public way to have Lab know that the document is of this version of the file.
  model.fromJSON = content => take(content as INotebookContent);
  try {
    await context.revert();
  } finally {
    delete (model as Partial<INotebookModel>).fromJSON;
  }
}

type Typed = Pick<ICell, 'cell_type' | 'source'>;

/**
 * What the person types into cells while the document is loaded anew, by the id of the cell. It
 * would be lost: Lab replaces all cells when the file has come, whatever they hold by then.
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

/** Into the cell, or behind the others if the cell has gone. */
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
