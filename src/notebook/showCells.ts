/**
 * Updates the cells of an open notebook in place, so that the remaining cells keep their cursors
 * and undo history.
 */
import {
  ISharedAttachmentsCell,
  ISharedCell,
  ISharedCodeCell,
  ISharedNotebook
} from '@jupyter/ydoc';
import * as nbformat from '@jupyterlab/nbformat';
import { PartialJSONValue } from '@lumino/coreutils';

import { replaceOutputs } from './cellOutputs';
import { Cell, IMerge, same, sourceOf } from './mergeCells';
import { replaceSource } from './cellSource';

/**
 * Update the notebook to the merged cells.
 *
 * @param trust - called when the outputs of an existing cell are replaced, or become trusted
 */
export function showCells(
  notebook: ISharedNotebook,
  { cells, shown }: Pick<IMerge, 'cells' | 'shown'>,
  trust: (cellId: string, trusted: boolean) => void
): void {
  const wanted = new Map(cells.map(cell => [cell.id, cell]));
  for (let index = notebook.cells.length - 1; index >= 0; index--) {
    const { id, cell_type } = notebook.getCell(index);
    if (wanted.get(id)?.cell_type !== cell_type) {
      notebook.deleteCell(index);
    }
  }
  cells.forEach((cell, index) => {
    const from = notebook.cells.findIndex(({ id }) => id === cell.id);
    if (from === -1) {
      notebook.insertCell(index, cell as any);
      return;
    }
    const code = notebook.getCell(from);
    const running = isCode(code) && code.executionState === 'running';
    if (from !== index) {
      notebook.moveCell(from, index);
    }
    const there = notebook.getCell(index);
    fill(there, cell, shown.has(cell.id), trust);
    if (isCode(there)) {
      // The shared model moves a copy, which lacks the execution state.
      setRunning(notebook, there, running);
    }
  });
}

/** Mark a cell as running; return `false` if it runs already, or is not there. */
export function beginRun(notebook: ISharedNotebook, cellId: string): boolean {
  const cell = notebook.cells.find(({ id }) => id === cellId);
  if (!cell || !isCode(cell) || cell.executionState === 'running') {
    return false;
  }
  setRunning(notebook, cell, true);
  return true;
}

/** Mark a cell as no longer running. */
export function endRun(notebook: ISharedNotebook, cellId: string): void {
  const cell = notebook.cells.find(({ id }) => id === cellId);
  if (cell && isCode(cell)) {
    setRunning(notebook, cell, false);
  }
}

function isCode(cell: ISharedCell): cell is ISharedCodeCell {
  return cell.cell_type === 'code';
}

function hasAttachments(cell: ISharedCell): cell is ISharedAttachmentsCell {
  return cell.cell_type === 'markdown' || cell.cell_type === 'raw';
}

function setRunning(
  notebook: ISharedNotebook,
  cell: ISharedCodeCell,
  running: boolean
): void {
  if ((cell.executionState === 'running') !== running) {
    notebook.transact(() => {
      cell.executionState = running ? 'running' : 'idle';
    }, false);
  }
}

function fill(
  cell: ISharedCell,
  wanted: Cell,
  isShown: boolean,
  trust: (cellId: string, trusted: boolean) => void
): void {
  if (cell.source !== sourceOf(wanted)) {
    replaceSource(cell, sourceOf(wanted));
  }
  if (isCode(cell)) {
    const { outputs, execution_count, metadata } = wanted as nbformat.ICodeCell;
    if (isShown) {
      if (!metadata.trusted) {
        trust(wanted.id, false);
      }
      replaceOutputs(cell, 0, outputs);
      cell.execution_count = execution_count;
    }
    if (metadata.trusted && !cell.getMetadata('trusted')) {
      // Not earlier: the outputs before may come from an untrusted source.
      trust(wanted.id, true);
    }
  } else if (
    hasAttachments(cell) &&
    !same(cell.getAttachments(), wanted.attachments)
  ) {
    cell.setAttachments(wanted.attachments as nbformat.IAttachments);
  }
  const { metadata } = wanted;
  for (const key of Object.keys({ ...cell.getMetadata(), ...metadata })) {
    if (key === 'trusted') {
      continue; // Goes with the outputs.
    }
    if (key in metadata) {
      cell.setMetadata(key, metadata[key] as PartialJSONValue);
    } else {
      cell.deleteMetadata(key);
    }
  }
}
