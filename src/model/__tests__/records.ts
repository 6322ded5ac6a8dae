import { IRecord, ISessionState, ServerFrame } from '../../api/frames';
import { Conversation } from '../conversation';
import { IToolItem, Item } from '../items';

/** Numbers records as the server does. */
export class Log {
  readonly records: IRecord[] = [];

  add(kind: string, fields: Record<string, unknown> = {}): IRecord {
    const seq = this.records.length + 1;
    const record = {
      seq,
      id: `id${seq}`,
      ts: '2026-01-02T03:04:05.000Z',
      kind,
      ...fields
    };
    this.records.push(record);
    return record;
  }
}

export function recordFrame(record: IRecord): ServerFrame {
  return { type: 'record', record };
}

export function state(changes: Partial<ISessionState> = {}): ISessionState {
  return {
    running: false,
    phase: 'idle',
    turn: null,
    context_tokens: 1000,
    threshold: 10_000,
    kernel: { id: 'k', state: 'idle' },
    ...changes
  };
}

/** A seeded random number generator (mulberry32). */
export function random(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A log that a server could have written: turns of every kind, in a valid order. */
export function randomLog(seed: number, turns: number): IRecord[] {
  const next = random(seed);
  const below = (n: number): number => Math.floor(next() * n);
  const log = new Log();
  log.add('session_start', {
    notebook: 'a.ipynb',
    provider: 'offline',
    model: 'offline',
    permission_mode: 'ask'
  });
  for (let t = 0; t < turns; t++) {
    const turn = `t${t}`;
    log.add('user_message', { turn, text: `question ${t}`, user: 'ada' });
    for (let request = 0; request <= below(3); request++) {
      const calls = Array.from({ length: below(3) }, (_, i) => ({
        type: 'tool_use',
        id: `c${t}.${request}.${i}`,
        name: ['run_code', 'insert_cell', 'read_notebook'][below(3)],
        input: { code: `x = ${below(100)}` }
      }));
      log.add('assistant_message', {
        turn,
        content: [
          ...(below(2) ? [{ type: 'thinking', thinking: 'hm' }] : []),
          { type: 'text', text: `answer ${t}.${request}` },
          ...calls
        ],
        model: 'm',
        cost_usd: below(2) ? 0.01 : undefined
      });
      for (const call of calls) {
        if (below(3) === 0) {
          log.add('approval_request', {
            turn,
            call_id: call.id,
            what: 'tool',
            summary: 'Run code'
          });
          if (below(4) > 0) {
            log.add('approval', {
              turn,
              call_id: call.id,
              decision: below(3) ? 'allow' : 'deny'
            });
          }
        }
        if (below(8) > 0) {
          log.add('tool_result', {
            turn,
            tool_use_id: call.id,
            name: call.name,
            content: [{ type: 'text', text: 'done' }],
            is_error: below(4) === 0,
            duration_ms: below(1000)
          });
        }
      }
      if (below(5) === 0) {
        const queued = log.add('queued', { text: `later ${t}` });
        if (below(2)) {
          log.add('unqueued', { queued_seq: queued.seq, reason: 'deleted' });
        }
      }
      if (below(6) === 0) {
        log.add('error', { turn, code: 'overloaded', message: 'Busy.' });
      }
    }
    if (below(4) === 0) {
      const id = `k${t}`;
      log.add('compaction_start', {
        turn,
        compaction_id: id,
        trigger: 'threshold',
        tokens_before: 9000
      });
      log.add('compaction_end', {
        turn,
        compaction_id: id,
        trigger: 'threshold',
        outcome: ['ok', 'failed', 'skipped'][below(3)],
        tokens_before: 9000,
        tokens_after: 800,
        kernel_state: { status: 'current' }
      });
    }
    if (below(6) === 0) {
      log.add('some_kind_of_a_later_version', { turn });
    }
    log.add('turn_end', { turn, status: below(5) ? 'ok' : 'interrupted' });
  }
  return log.records;
}

/** Return a conversation to which these records were applied. */
export function replay(records: IRecord[]): Conversation {
  const conversation = new Conversation(() => 0);
  records.forEach(record => conversation.apply(recordFrame(record)));
  return conversation;
}

/** Return the item if it is a tool call; fail the test otherwise. */
export function tool(item: Item | undefined): IToolItem {
  if (item?.kind !== 'tool') {
    throw new Error(`Not a tool item: ${item?.kind}`);
  }
  return item;
}
