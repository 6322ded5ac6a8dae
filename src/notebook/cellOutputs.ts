/**
 * The outputs of a code cell in the shared model.
 */
import { ISharedCodeCell } from '@jupyter/ydoc';
import * as nbformat from '@jupyterlab/nbformat';
import { JSONExt } from '@lumino/coreutils';

import { INotebookOperation, IOutput } from '../api/frames';
import { OperationError } from './operationError';
import { commonStart } from './text';

type LateOutputs = Extract<INotebookOperation, { op: 'late_outputs' }>;

/**
 * Return the outputs of a cell after its run has produced further outputs after its end.
 */
export function withLateOutputs(
  shown: nbformat.IOutput[],
  op: Pick<LateOutputs, 'clear' | 'updates' | 'ending' | 'outputs'>
): nbformat.IOutput[] {
  const outputs = op.clear ? [] : shown.slice();
  for (const { index, data, metadata } of op.updates) {
    if (index < outputs.length && 'data' in outputs[index]) {
      outputs[index] = { ...outputs[index], data, metadata };
    }
  }
  const fresh = op.outputs.slice() as nbformat.IOutput[];
  if (op.ending !== null && fresh.length > 0) {
    const last = outputs[outputs.length - 1];
    const { length } = op.ending;
    const text = String(fresh[0].text);
    const before = String(last?.text);
    if (last?.name === fresh[0].name && before.endsWith(op.ending)) {
      const kept = before.slice(0, before.length - length);
      outputs[outputs.length - 1] = { ...last, text: kept + text };
      fresh.shift();
    } else if (text.startsWith(op.ending)) {
      fresh[0] = { ...fresh[0], text: text.slice(length) };
    }
  }
  return [...outputs, ...fresh];
}

/**
 * Keep the first `from` outputs and replace the rest, except for equal outputs at its start: an
 * output that is inserted again is rendered again, and its scripts run again.
 *
 * Each step is a separate transaction, because JupyterLab's cell applies insertions before
 * deletions and merges adjacent streams.
 */
export function replaceOutputs(
  cell: ISharedCodeCell,
  from: number,
  outputs: IOutput[]
): void {
  const old = cell.getOutputs();
  if (from > old.length) {
    throw new OperationError(
      'run_unknown',
      'Outputs are missing before these.'
    );
  }
  let fresh = outputs as nbformat.IOutput[];
  let kept = from;
  while (
    kept < old.length &&
    fresh.length > 0 &&
    JSONExt.deepEqual(old[kept], fresh[0])
  ) {
    fresh = fresh.slice(1);
    kept++;
  }
  if (old.length === kept + 1 && isSameStream(old[kept], fresh[0])) {
    // Replacing a stream would render all of it again for every line.
    replaceText(
      cell as IStreamingCell,
      kept,
      String(old[kept].text),
      String(fresh[0].text)
    );
    fresh = fresh.slice(1);
    kept++;
  }
  if (old.length > kept) {
    cell.updateOutputs(kept, old.length, []);
  }
  if (fresh.length > 0) {
    cell.updateOutputs(kept, kept, fresh);
  }
}

/** Methods of the shared code cell that are missing in its interface. */
interface IStreamingCell extends ISharedCodeCell {
  removeStreamOutput(index: number, start: number): void;
  appendStreamOutput(index: number, text: string): void;
}

function isSameStream(
  last: nbformat.IOutput,
  first: nbformat.IOutput | undefined
): boolean {
  return (
    last.output_type === 'stream' &&
    first?.output_type === 'stream' &&
    last.name === first.name
  );
}

function replaceText(
  cell: IStreamingCell,
  index: number,
  old: string,
  text: string
): void {
  const same = commonStart(old, text);
  if (same < old.length) {
    cell.removeStreamOutput(index, same);
  }
  if (same < text.length) {
    cell.appendStreamOutput(index, text.slice(same));
  }
}
