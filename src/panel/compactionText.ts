import { TranslationBundle } from '@jupyterlab/translation';

import { ICompactionItem } from '../model/items';
import { age } from './format';

/**
 * The line that says what a compaction came to. That the kernel's state is preserved is said only
 * where it is so.
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
  const { status, age_s } = item.kernelState;
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

/** The summary turn taken apart for people: the summary itself, and where the details are. */
export function summaryParts(text: string): { summary: string; hint: string } {
  const hint = text.match(/<recovery_hint>([\s\S]*?)<\/recovery_hint>/);
  const summary = text
    .replace(/<recovery_hint>[\s\S]*?<\/recovery_hint>/, '')
    .replace(/<last_user_message>/, '\n\n## Last message\n\n')
    .replace(/<kernel_state>/, '\n\n## Kernel\n\n')
    .replace(/<\/?(?:compaction-summary|last_user_message|kernel_state)>/g, '');
  return { summary: summary.trim(), hint: (hint?.[1] ?? '').trim() };
}
