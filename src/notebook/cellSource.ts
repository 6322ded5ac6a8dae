/**
 * The source of a cell in the shared model.
 */
import { ISharedCell } from '@jupyter/ydoc';

import { commonStart, splitsPair } from './text';

/** Replace only the part that differs, so that cursors elsewhere in the cell keep their place. */
export function replaceSource(cell: ISharedCell, source: string): void {
  const old = cell.source;
  const shorter = Math.min(old.length, source.length);
  const start = commonStart(old, source);
  let end = 0;
  while (
    end < shorter - start &&
    old[old.length - 1 - end] === source[source.length - 1 - end]
  ) {
    end++;
  }
  if (
    splitsPair(old, old.length - end) ||
    splitsPair(source, source.length - end)
  ) {
    end--;
  }
  cell.updateSource(
    start,
    old.length - end,
    source.slice(start, source.length - end)
  );
}
