import { ISharedCodeCell, YNotebook } from '@jupyter/ydoc';
import * as Y from 'yjs';

import { OperationError } from '../operationError';

export function notebook(...sources: string[]): YNotebook {
  const shared = YNotebook.create({
    disableDocumentWideUndoRedo: true
  }) as YNotebook;
  shared.nbformat = 4;
  shared.nbformat_minor = 5;
  sources.forEach((source, i) =>
    shared.addCell({
      id: 'abcdefgh'[i],
      cell_type: 'code',
      source,
      outputs: [],
      metadata: {}
    })
  );
  return shared;
}

export const sources = (shared: YNotebook) =>
  shared.cells.map(cell => cell.source);
export const ids = (shared: YNotebook) => shared.cells.map(cell => cell.id);
export const code = (shared: YNotebook, index: number) =>
  shared.getCell(index) as ISharedCodeCell;
export const stream = (text: string) => ({
  output_type: 'stream',
  name: 'stdout',
  text
});
export const display = (text: string) => ({
  output_type: 'display_data',
  data: { 'text/plain': text },
  metadata: {}
});

export function failure(work: () => unknown): OperationError {
  try {
    work();
  } catch (reason) {
    return reason as OperationError;
  }
  throw new Error('Nothing failed.');
}

/** Count the changes of the notebook's saved content. */
export function changes(shared: YNotebook, work: () => unknown): number {
  let count = 0;
  const changed = (transaction: Y.Transaction) => {
    const cells = shared.ydoc.getArray('cells') as Y.AbstractType<any>;
    if (transaction.changedParentTypes.has(cells)) {
      count++;
    }
  };
  shared.ydoc.on('afterTransaction', changed);
  work();
  shared.ydoc.off('afterTransaction', changed);
  return count;
}
