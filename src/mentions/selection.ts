import { ISelection } from '../api/attachments';

/**
 * Return the selection between two offsets of a text; `null` if it is blank. Line breaks at its end
 * are excluded, since the line after them is not meant.
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
