/**
 * Operations on the shared model of a notebook. Each edit is a separate step for undo.
 */
import { ISharedCell, ISharedCodeCell, ISharedNotebook } from '@jupyter/ydoc';
import * as nbformat from '@jupyterlab/nbformat';

import { INotebookOperation } from '../api/frames';
import { replaceOutputs, withLateOutputs } from './cellOutputs';
import { replaceSource } from './cellSource';
import { sourceHash } from './hash';
import { OperationError } from './operationError';
import { shortenOutputs } from './outputs';

/**
 * Maximum size of a response to `read`, and of the cell in the acknowledgement of `run_start`, in
 * characters of JSON. The server's websocket accepts at most 10 MiB.
 */
const PIECE = 2_000_000;

/** Maximum size of a deleted cell in the acknowledgement, in characters of JSON. */
const LARGEST_CELL = 8_000_000;

/** A cell before or after an operation. */
export interface ICellState {
  source: string;
  cell_type: string;
  index: number;
  /** Ids of the adjacent cells; `null` at the ends. */
  prev: string | null;
  next: string | null;
}

export interface IApplied {
  /** Before a deletion, and before a run that replaces outputs, includes the whole cell. */
  before: (ICellState & { cell?: nbformat.ICell }) | null;
  /** After late outputs, includes the number of outputs and the execution count. */
  after:
    (ICellState & { outputs?: number; execution_count?: number | null }) | null;
}

type Operation<K> = Extract<INotebookOperation, { op: K }>;

type Edit = Operation<
  'insert_cell' | 'edit_cell' | 'delete_cell' | 'move_cell'
>;
type RunStep = Operation<'run_start' | 'run_outputs' | 'run_end'>;

/** A run by the server, as shown in this page. */
interface IRun {
  id: string;
  /** Whether the run had started before this page learned of it. */
  isJoined: boolean;
  /** Whether the cell shows the outputs of the run instead of its earlier ones. */
  isShown: boolean;
}

/** The current runs, by cell id. */
export type Runs = Map<string, IRun>;

/**
 * Apply an edit as a separate undo step.
 *
 * @throws OperationError with `cell_not_found`, `cell_conflict` or `cell_locked`
 */
export function applyEdit(notebook: ISharedNotebook, op: Edit): IApplied {
  endUndoStep(notebook, op.cell_id);
  try {
    return edit(notebook, op);
  } finally {
    endUndoStep(notebook, op.cell_id);
  }
}

/** End the undo step. Otherwise the undo manager merges changes within half a second. */
function endUndoStep(notebook: ISharedNotebook, cellId: string): void {
  const index = indexOf(notebook, cellId);
  const models: unknown[] = [notebook];
  if (index !== -1) {
    models.push(notebook.getCell(index));
  }
  for (const model of models) {
    // JupyterLab's models have it, although their interfaces do not.
    const { undoManager } = model as {
      undoManager?: { stopCapturing(): void } | null;
    };
    undoManager?.stopCapturing();
  }
}

function edit(notebook: ISharedNotebook, op: Edit): IApplied {
  if (op.op === 'insert_cell') {
    let index = indexOf(notebook, op.cell_id);
    if (index === -1) {
      index = indexBehind(notebook, op.after);
      keepIds(notebook);
      notebook.insertCell(index, {
        // As in JupyterLab for a cell that the user inserts.
        metadata: op.cell_type === 'code' ? { trusted: true } : {},
        ...op.cell,
        id: op.cell_id,
        cell_type: op.cell_type,
        source: op.source
      });
    }
    return { before: null, after: stateOf(notebook, index) };
  }

  const index = requireIndex(notebook, op.cell_id);
  const before = stateOf(notebook, index);
  switch (op.op) {
    case 'edit_cell': {
      if (before.source !== op.source) {
        expectUnlocked(notebook.getCell(index), 'editable', op);
        expect(before, op.cell_id, op.expected_hash);
        keepIds(notebook);
        replaceSource(notebook.getCell(index), op.source);
        const cell = codeCell(notebook, index);
        if (cell && op.outputs) {
          replaceOutputs(cell, 0, op.outputs);
          notebook.transact(() => {
            cell.execution_count = op.execution_count ?? null;
            cell.deleteMetadata('execution');
          }, false);
        }
      }
      return { before, after: stateOf(notebook, index) };
    }
    case 'delete_cell': {
      expectUnlocked(notebook.getCell(index), 'deletable', op);
      expect(before, op.cell_id, op.expected_hash);
      keepIds(notebook);
      const cell = wholeCell(notebook.getCell(index));
      notebook.deleteCell(index);
      return { before: { ...before, cell }, after: null };
    }
    case 'move_cell': {
      if (op.after === op.cell_id) {
        return { before, after: before };
      }
      const behind = indexBehind(notebook, op.after);
      const target = behind > index ? behind - 1 : behind;
      if (target !== index) {
        const running = codeCell(notebook, index)?.executionState === 'running';
        keepIds(notebook);
        notebook.moveCell(index, target);
        // The shared model moves a copy, which lacks the execution state.
        const moved = codeCell(notebook, target);
        if (moved && running) {
          moved.executionState = 'running';
        }
      }
      return { before, after: stateOf(notebook, target) };
    }
  }
}

/**
 * Show a step of a run by the server.
 *
 * @param onShown - called once for each run, when the earlier outputs of its cell are removed
 * @throws OperationError with `cell_not_found`, `cell_conflict`, `not_a_code_cell` or `run_unknown`
 */
export function applyRunStep(
  notebook: ISharedNotebook,
  op: RunStep,
  runs: Runs,
  onShown: () => void = () => undefined
): IApplied {
  const index = requireIndex(notebook, op.cell_id);
  const before = stateOf(notebook, index);
  const cell = requireCode(notebook, index);
  if (op.op === 'run_start') {
    if (op.expected_hash !== null) {
      expect(before, op.cell_id, op.expected_hash);
    }
    runs.set(op.cell_id, {
      id: op.run_id,
      isJoined: op.expected_hash === null,
      isShown: false
    });
    const whole = cell.toJSON();
    const shown =
      cell.outputs.length > 0 && JSON.stringify(whole).length <= PIECE
        ? { cell: whole }
        : {};
    notebook.transact(() => {
      cell.executionState = 'running';
    }, false);
    return { before: { ...before, ...shown }, after: before };
  }
  const run = runs.get(op.cell_id);
  if (run?.id !== op.run_id) {
    throw new OperationError('run_unknown', 'This page does not know the run.');
  }
  if (op.op === 'run_outputs') {
    if (!run.isShown) {
      // If the page joined later, the outputs in the cell may already be those of the run.
      replaceOutputs(cell, op.from, run.isJoined ? op.outputs : []);
      notebook.transact(() => {
        cell.execution_count = null;
        cell.deleteMetadata('execution');
      }, false);
      run.isShown = true;
      onShown();
    }
    replaceOutputs(cell, op.from, op.outputs);
    cell.executionState = 'running';
  } else {
    runs.delete(op.cell_id);
    notebook.transact(() => {
      if (run.isShown) {
        cell.execution_count = op.execution_count;
      }
      cell.executionState = 'idle';
    }, false);
  }
  return { before, after: before };
}

/**
 * Show outputs that a run by the server produced after its end, if the cell still shows that run.
 *
 * @param ranHere - ids of the cells that the user has run in this page since
 * @throws OperationError with `cell_not_found`, `not_a_code_cell` or `run_superseded`
 */
export function applyLateOutputs(
  notebook: ISharedNotebook,
  op: Operation<'late_outputs'>,
  ranHere: ReadonlySet<string>
): IApplied {
  const index = requireIndex(notebook, op.cell_id);
  const before = stateOf(notebook, index);
  const cell = requireCode(notebook, index);
  const shown = cell.getOutputs();
  // A kernel never repeats an execution count. A cell without outputs and count was cleared by the
  // user; it still accepts late outputs, as it does in JupyterLab.
  const isCleared = cell.execution_count === null && shown.length === 0;
  if (
    ranHere.has(op.cell_id) ||
    cell.executionState === 'running' ||
    (cell.execution_count !== op.execution_count && !isCleared)
  ) {
    throw new OperationError(
      'run_superseded',
      'The cell shows another run by now.'
    );
  }
  const outputs = withLateOutputs(shown, op);
  replaceOutputs(cell, 0, outputs);
  const { execution_count } = cell;
  return {
    before,
    after: { ...before, outputs: outputs.length, execution_count }
  };
}

/**
 * Read one cell, or as many cells from a position on as fit into one frame.
 *
 * @throws OperationError with `cell_not_found`
 */
export function readCells(
  notebook: ISharedNotebook,
  op: Operation<'read'>
): { cells: any[]; next: number | null } {
  if ('cell_id' in op) {
    const index = requireIndex(notebook, op.cell_id);
    return { cells: [cellToJSON(notebook.getCell(index), index)], next: null };
  }
  const cells: any[] = [];
  let size = 0;
  for (let index = op.start; index < notebook.cells.length; index++) {
    const cell = cellToJSON(notebook.getCell(index), index);
    size += JSON.stringify(cell).length;
    if (size > PIECE && cells.length > 0) {
      return { cells, next: index };
    }
    cells.push(cell);
  }
  return { cells, next: null };
}

function cellToJSON(cell: ISharedCell, index: number): any {
  const common = {
    id: cell.id,
    cell_type: cell.cell_type,
    source: cell.source,
    metadata: cell.getMetadata(),
    index
  };
  if (!isCode(cell)) {
    return common;
  }
  return {
    ...common,
    execution_count: cell.execution_count,
    outputs: shortenOutputs(cell.getOutputs()),
    running: cell.executionState === 'running'
  };
}

function isCode(cell: ISharedCell): cell is ISharedCodeCell {
  return cell.cell_type === 'code';
}

function codeCell(
  notebook: ISharedNotebook,
  index: number
): ISharedCodeCell | null {
  const cell = notebook.getCell(index);
  return isCode(cell) ? cell : null;
}

function requireCode(
  notebook: ISharedNotebook,
  index: number
): ISharedCodeCell {
  const cell = codeCell(notebook, index);
  if (cell === null) {
    const { id, cell_type } = notebook.getCell(index);
    throw new OperationError(
      'not_a_code_cell',
      `Cell ${id} is a ${cell_type} cell by now, which has no outputs.`
    );
  }
  return cell;
}

function indexOf(notebook: ISharedNotebook, cellId: string): number {
  return notebook.cells.findIndex(cell => cell.id === cellId);
}

function requireIndex(notebook: ISharedNotebook, cellId: string): number {
  const index = indexOf(notebook, cellId);
  if (index === -1) {
    throw new OperationError(
      'cell_not_found',
      `The notebook has no cell with the id ${cellId}.`,
      { cell_id: cellId }
    );
  }
  return index;
}

/** Return the index after the cell `after`; `null`: the end, `''`: the top. */
function indexBehind(notebook: ISharedNotebook, after: string | null): number {
  if (after === null) {
    return notebook.cells.length;
  }
  return after === '' ? 0 : requireIndex(notebook, after) + 1;
}

function stateOf(notebook: ISharedNotebook, index: number): ICellState {
  const { source, cell_type } = notebook.getCell(index);
  return {
    source,
    cell_type,
    index,
    prev: notebook.cells[index - 1]?.id ?? null,
    next: notebook.cells[index + 1]?.id ?? null
  };
}

/** Return the whole cell, for inserting it again; without outputs if it exceeds the frame size. */
function wholeCell(cell: ISharedCell): nbformat.ICell {
  const whole = cell.toJSON();
  return JSON.stringify(whole).length > LARGEST_CELL
    ? { ...whole, outputs: [] }
    : whole;
}

function expect(state: ICellState, cellId: string, hash: string): void {
  if (hash && sourceHash(state.source) !== hash) {
    throw new OperationError(
      'cell_conflict',
      `Cell ${cellId} does not hold the source that was expected.`,
      { source: state.source }
    );
  }
}

/** Refuse what the metadata of a cell (nbformat) forbid, as JupyterLab does. */
function expectUnlocked(
  cell: ISharedCell,
  flag: 'editable' | 'deletable',
  op: { undo?: boolean }
): void {
  if (!op.undo && cell.getMetadata(flag) === false) {
    throw new OperationError(
      'cell_locked',
      `Cell ${cell.id} is locked by its author (metadata ${flag}: false).`
    );
  }
}

/**
 * Upgrade the notebook to nbformat 4.5, which is the first version that saves cell ids. In an older
 * notebook JupyterLab generates ids on load and drops them on save, but the operations of the agent
 * need stable ids.
 */
function keepIds(notebook: ISharedNotebook): void {
  if (notebook.nbformat === 4 && notebook.nbformat_minor < 5) {
    // The property is read-only in the interface only.
    (notebook as { nbformat_minor: number }).nbformat_minor = 5;
  }
}
