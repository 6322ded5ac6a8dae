import { TranslationBundle } from '@jupyterlab/translation';

import { ServerFrame } from '../api/frames';
import { SessionRecord } from '../api/records';
import { IConversation } from '../model/items';
import { restoreItem } from '../model/recordItems';
import { compactionLine } from './compactionText';
import { restoreLine } from './restoreText';
import { revertLine } from './revertText';

/**
 * Return the text that screen readers announce for a frame; `null` for most frames. Streamed text
 * is not announced, but complete answers, approval requests, errors and the like are.
 */
export function announcement(
  frame: ServerFrame,
  conversation: IConversation,
  trans: TranslationBundle
): string | null {
  if (frame.type === 'message_complete') {
    return trans.__('Answer complete. %1', lastText(conversation));
  }
  if (frame.type !== 'record') {
    return null;
  }
  const record = frame.record as unknown as SessionRecord;
  switch (record.kind) {
    case 'approval_request':
      return trans.__('Decision needed: %1', record.summary);
    case 'error':
      return `${record.message} ${record.hint ?? ''}`.trim();
    case 'compaction_end': {
      const item = conversation.items.find(
        ({ key }) => key === record.compaction_id
      );
      return item?.kind === 'compaction' ? compactionLine(item, trans) : null;
    }
    case 'restore': {
      const item = restoreItem(record);
      return item && restoreLine(item, trans);
    }
    case 'revert': {
      const item = conversation.items.find(
        ({ kind, turn }) => kind === 'turn' && turn === record.turn
      );
      return item?.kind === 'turn' && item.revert
        ? revertLine(item.revert, trans)
        : null;
    }
    case 'queued':
      return trans.__('Message queued');
    case 'unqueued':
      return record.reason === 'sent'
        ? trans.__('Queued message sent')
        : trans.__('Queued message removed');
    case 'turn_end':
      return record.status === 'interrupted' ? trans.__('Stopped') : null;
    default:
      return null;
  }
}

/** Number of characters of an answer that are announced. */
const LONGEST = 300;

function lastText(conversation: IConversation): string {
  for (let i = conversation.items.length - 1; i >= 0; i--) {
    const item = conversation.items[i];
    if (item.kind === 'text') {
      return item.text.length > LONGEST
        ? `${item.text.slice(0, LONGEST)}…`
        : item.text;
    }
    if (item.kind === 'user') {
      break;
    }
  }
  return '';
}
