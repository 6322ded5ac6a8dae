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
 * What a cell shows when the run that filled it has put out more behind its end.
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
 * Keep the first `from` outputs, and those behind them that stay as they are; replace what follows.
 * An output that is inserted again is drawn again, and its scripts run again.
 *
 * Each step is a transaction of its own: Lab's cell applies what was inserted before what was
 * deleted, and joins neighbouring streams.
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
    // Replacing a stream would render all of it again with every line.
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

/** Part of the shared code cell that its interface does not name. */
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
