/**
 * Cells of an open notebook as attachments.
 */
import { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import * as nbformat from '@jupyterlab/nbformat';

import { IAttachedCell, IAttachment } from '../api/attachments';
import { IOutput } from '../api/frames';

/** Characters of text of one output, half of them from each end. */
const MAX_TEXT = 20_000;

/** Base64 characters of an image; a larger one is not sent. */
const MAX_IMAGE = 5_000_000;

const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** The cell by its id; what it holds is read when the message is sent. */
export function cellReference(cell: ICellModel, index: number): IAttachedCell {
  return {
    id: cell.id,
    input_type: cell.type as IAttachedCell['input_type'],
    index,
    first_line: firstLine(cell)
  };
}

/**
 * The attachment as it is sent: with what its cells hold now. The server looks for a cell that is
 * not among them.
 *
 * @param cells - Of the notebook that it names; none if that is not open.
 */
export function filled(
  attachment: IAttachment,
  cells: readonly ICellModel[]
): IAttachment {
  if (!('cells' in attachment)) {
    return attachment;
  }
  return {
    ...attachment,
    cells: attachment.cells?.map(({ first_line: _, ...attached }) => {
      const index = cells.findIndex(({ id }) => id === attached.id);
      return index < 0
        ? attached
        : { ...attached, ...contentOf(cells[index], index) };
    })
  } as IAttachment;
}

/** The first line that is not blank. */
export function firstLine(cell: ICellModel): string {
  const lines = cell.sharedModel.getSource().split('\n');
  return lines.find(line => line.trim() !== '')?.trim() ?? '';
}

/** The error that the cell's last run ended with. */
export function errorOf(cell: ICellModel | null): nbformat.IError | null {
  if (cell?.type !== 'code' || cell.isDisposed) {
    return null;
  }
  const { outputs } = cell as ICodeCellModel;
  const last = outputs.length > 0 ? outputs.get(outputs.length - 1) : null;
  // Only of an error: a figure would be copied whole, and this is asked often.
  return last?.type === 'error' ? (last.toJSON() as nbformat.IError) : null;
}

/** Where the cell is whose run failed last; -1 if none did. */
export function lastError(cells: readonly ICellModel[]): number {
  let last = -1;
  cells.forEach((cell, index) => {
    if (
      errorOf(cell) !== null &&
      (last < 0 || countOf(cell) >= countOf(cells[last]))
    ) {
      last = index;
    }
  });
  return last;
}

function contentOf(cell: ICellModel, index: number): Partial<IAttachedCell> {
  const content = { index, source: cell.sharedModel.getSource() };
  return cell.type !== 'code'
    ? content
    : {
        ...content,
        execution_count: (cell as ICodeCellModel).executionCount,
        outputs: readable((cell as ICodeCellModel).outputs.toJSON())
      };
}

/** Outputs as a reader sees them: text in full unless it is very long, images, nothing else. */
export function readable(outputs: nbformat.IOutput[]): IOutput[] {
  return outputs.map((output): IOutput => {
    if (nbformat.isStream(output)) {
      return {
        output_type: 'stream',
        name: output.name,
        text: cut(output.text)
      };
    }
    if (nbformat.isError(output)) {
      const { ename, evalue, traceback } = output;
      return {
        output_type: 'error',
        ename,
        evalue: cut(evalue),
        traceback: [cut(traceback.join('\n'))]
      };
    }
    const held = (output.data ?? {}) as nbformat.IMimeBundle;
    const data: Record<string, string> = {};
    const image = IMAGES.find(mime => {
      const { length } = joined(held[mime]);
      return length > 0 && length <= MAX_IMAGE;
    });
    if (image !== undefined) {
      data[image] = joined(held[image]);
    }
    const text = [
      'text/plain',
      'text/markdown',
      'text/latex',
      'text/html'
    ].find(mime => mime in held);
    if (text !== undefined) {
      data[text] = cut(held[text]);
    }
    return { output_type: output.output_type, data };
  });
}

function countOf(cell: ICellModel): number {
  return (cell as ICodeCellModel).executionCount ?? 0;
}

function cut(value: unknown): string {
  const text = joined(value);
  if (text.length <= MAX_TEXT) {
    return text;
  }
  const half = MAX_TEXT / 2;
  const left = text.length - MAX_TEXT;
  return `${text.slice(0, half)}\n[… ${left} characters …]\n${text.slice(-half)}`;
}

function joined(value: unknown): string {
  return Array.isArray(value) ? value.join('') : String(value ?? '');
}
