/**
 * Loading the file of an open document without losing what the user changes meanwhile.
 */
import { ISharedNotebook } from '@jupyter/ydoc';
import { DocumentRegistry } from '@jupyterlab/docregistry';
import { ICell, INotebookContent } from '@jupyterlab/nbformat';
import { INotebookModel, NotebookModel } from '@jupyterlab/notebook';

import { areNamed, sourceOf } from './mergeCells';

/**
 * Load the file of a document, and let `take` apply its content to the document. JupyterLab would
 * replace all cells, and lose the changes and the cursor of the user; `replace` does that.
 */
export async function revertInto(
  context: DocumentRegistry.IContext<INotebookModel>,
  take: (content: INotebookContent, replace: () => void) => void
): Promise<void> {
  const { model } = context;
  const replace = model.fromJSON.bind(model);
  // `revert` is the public way to make this version of the file the base of the document.
  model.fromJSON = content =>
    take(content as INotebookContent, () => replace(content));
  try {
    await context.revert();
  } finally {
    delete (model as Partial<INotebookModel>).fromJSON;
  }
}

/** Whether a file contains the ids of its cells. */
export function hasIds({
  nbformat,
  nbformat_minor,
  metadata,
  cells
}: INotebookContent): boolean {
  return (
    nbformat === 4 &&
    nbformat_minor >= 5 &&
    // A file in an older major version is converted on load, with new ids each time.
    metadata.orig_nbformat === undefined &&
    areNamed(cells)
  );
}

/** Return the content of a file as JupyterLab would hold it after loading the file. */
export function asLoaded(content: INotebookContent): INotebookContent {
  const model = new NotebookModel();
  model.fromJSON(content);
  const loaded = model.toJSON() as INotebookContent;
  model.dispose();
  return loaded;
}

/** Return the cells whose source was edited since `base`, new cells included. */
export function editedSince(
  base: readonly ICell[],
  cells: readonly ICell[]
): ICell[] {
  return cells.filter(
    cell =>
      !base.some(old => old.id === cell.id && sourceOf(old) === sourceOf(cell))
  );
}

/** Put an edited source back into its cell, or into a new cell at the end if the cell is gone. */
export function putBack(shared: ISharedNotebook, edited: ICell): void {
  const { id, cell_type } = edited;
  const source = sourceOf(edited);
  const cell = shared.cells.find(cell => cell.getId() === id);
  if (cell) {
    cell.setSource(source);
  } else if (source !== '') {
    shared.addCell({ cell_type, source } as ICell);
  }
}
