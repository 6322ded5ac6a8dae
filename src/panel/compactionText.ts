import { TranslationBundle } from '@jupyterlab/translation';

import { ICompactionItem } from '../model/items';
import { age } from './format';

/**
 * Return the line about the outcome of a compaction. It says that the kernel state is preserved
 * only if the snapshot is current and a restart has left no variable behind.
 */
export function compactionLine(
  item: ICompactionItem,
  trans: TranslationBundle
): string {
  switch (item.status) {
    case 'running':
      return trans.__('[compaction] reducing the context…');
    case 'skipped':
      return trans.__('[compaction] not needed: %1', item.reason ?? '');
    case 'cancelled':
      return trans.__('[compaction] cancelled');
    case 'failed':
      return item.reason
        ? trans.__('[compaction] failed: %1', item.reason)
        : trans.__('[compaction] failed');
    case 'ok':
      return item.path === 'prune'
        ? trans.__('[compaction] old tool outputs shortened')
        : reducedLine(item, trans);
  }
}

function reducedLine(item: ICompactionItem, trans: TranslationBundle): string {
  const { status, age_s, off, unrestored } = item.kernelState;
  if (off) {
    return trans.__(
      '[compaction] context reduced; variables are not saved, snapshots are off'
    );
  }
  if (unrestored) {
    return trans._n(
      '[compaction] context reduced; %1 variable of the former kernel is not restored',
      '[compaction] context reduced; %1 variables of the former kernel are not restored',
      unrestored
    );
  }
  const snapshot = typeof age_s === 'number' ? age(age_s, trans) : null;
  switch (status) {
    case 'current':
      return trans.__('[compaction] context reduced, kernel state preserved');
    case 'busy':
      return snapshot
        ? trans.__(
            '[compaction] context reduced; kernel busy, last snapshot %1 ago',
            snapshot
          )
        : trans.__(
            '[compaction] context reduced; kernel busy, no snapshot yet'
          );
    case 'stale':
      return snapshot
        ? trans.__(
            '[compaction] context reduced; last kernel snapshot %1 ago',
            snapshot
          )
        : trans.__('[compaction] context reduced; no kernel snapshot');
    default:
      return trans.__(
        '[compaction] context reduced; no kernel state to preserve'
      );
  }
}

/** Split the summary turn for display: the summary as Markdown, and the recovery hint. */
export function summaryParts(
  text: string,
  trans: TranslationBundle
): { summary: string; hint: string } {
  const hint = text.match(/<recovery_hint>([\s\S]*?)<\/recovery_hint>/);
  const headings: { [tag: string]: string } = {
    unverified: trans.__('Not verified'),
    ledger: trans.__('Exact details'),
    last_user_message: trans.__('Last message'),
    kernel_state: trans.__('Kernel')
  };
  const summary = text
    .replace(/<recovery_hint>[\s\S]*?<\/recovery_hint>/, '')
    .replace(/<\/?compaction-summary>/g, '')
    .replace(/<(\/?)(\w+)>/g, (whole, closing, tag) =>
      tag in headings ? (closing ? '' : `\n\n## ${headings[tag]}\n\n`) : whole
    );
  return { summary: summary.trim(), hint: (hint?.[1] ?? '').trim() };
}
