/**
 * Cells of an open notebook as attachments.
 */
import { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import * as nbformat from '@jupyterlab/nbformat';

import { IAttachedCell, IAttachment } from '../api/attachments';
import { IOutput } from '../api/frames';
import { cutMiddle, joined } from '../notebook/text';

/** Maximum number of characters of an output's text; half of them are kept from each end. */
const MAX_TEXT = 20_000;

/** Maximum size of an image in base64 characters; larger images are not sent. */
const MAX_IMAGE = 5_000_000;

const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** Return a reference to a cell; its content is read when the message is sent. */
export function cellReference(cell: ICellModel, index: number): IAttachedCell {
  return {
    id: cell.id,
    input_type: cell.type as IAttachedCell['input_type'],
    index,
    first_line: firstLine(cell)
  };
}

/**
 * Return the attachment as it is sent, with the current content of its cells. The server reads
 * cells that are not in `cells`.
 *
 * @param cells - Cells of the attachment's notebook; empty if it is not open.
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

/** Return the first line of a cell that is not blank. */
export function firstLine(cell: ICellModel): string {
  const lines = cell.sharedModel.getSource().split('\n');
  return lines.find(line => line.trim() !== '')?.trim() ?? '';
}

/** Return the error that the last run of the cell ended with; `null` if there is none. */
export function errorOf(cell: ICellModel | null): nbformat.IError | null {
  if (cell?.type !== 'code' || cell.isDisposed) {
    return null;
  }
  const { outputs } = cell as ICodeCellModel;
  const last = outputs.length > 0 ? outputs.get(outputs.length - 1) : null;
  // `toJSON` would copy a whole figure, and this is called often: call it for errors only.
  return last?.type === 'error' ? (last.toJSON() as nbformat.IError) : null;
}

/** Return the index of the cell whose run failed last; -1 if there is none. */
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

/** Reduce outputs to their text, shortened if it is very long, and one image each. */
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
  return cutMiddle(joined(value), MAX_TEXT / 2);
}
