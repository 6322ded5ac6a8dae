import { ISelection } from '../api/attachments';

/**
 * What is selected of a text, by its offsets; `null` if that is nothing. A line break at its end
 * does not count: the line behind it is not meant.
 */
export function selectionOf(
  text: string,
  from: number,
  to: number
): ISelection | null {
  const start = Math.min(from, to);
  const content = text.slice(start, Math.max(from, to)).replace(/\n+$/, '');
  return content.trim() === ''
    ? null
    : {
        start: placeOf(text, start),
        end: placeOf(text, start + content.length),
        content
      };
}

function placeOf(text: string, offset: number): [number, number] {
  const before = text.slice(0, offset).split('\n');
  return [before.length - 1, before[before.length - 1].length];
}
