import { TranslationBundle } from '@jupyterlab/translation';

import { IRevert } from '../model/items';

/** Whether a cell or file was not reverted. */
export function isLeft(entry: { outcome: string }): boolean {
  return entry.outcome === 'conflict' || entry.outcome === 'failed';
}

/** Return the line about the outcome of a revert. */
export function revertLine(revert: IRevert, trans: TranslationBundle): string {
  const cells = revert.cells.filter(cell => !isLeft(cell)).length;
  const files = revert.files.filter(file => !isLeft(file)).length;
  const left = revert.cells.length + revert.files.length - cells - files;
  const restored = revert.cells.filter(c => c.outputs === 'restored').length;
  const cleared = revert.cells.filter(c => c.outputs === 'cleared').length;
  const parts: string[] = [];
  if (cells > 0) {
    parts.push(trans._n('%1 cell reverted', '%1 cells reverted', cells));
  }
  if (restored > 0) {
    parts.push(
      trans._n(
        'outputs of %1 cell as before',
        'outputs of %1 cells as before',
        restored
      )
    );
  }
  if (cleared > 0) {
    parts.push(
      trans._n(
        'outputs of %1 cell cleared',
        'outputs of %1 cells cleared',
        cleared
      )
    );
  }
  if (files > 0) {
    parts.push(trans._n('%1 file reverted', '%1 files reverted', files));
  }
  if (left > 0) {
    parts.push(trans._n('%1 left as it is', '%1 left as they are', left));
  }
  return parts.length > 0
    ? parts.join(' · ')
    : trans.__('Nothing to revert: all is as it was before the turn.');
}
