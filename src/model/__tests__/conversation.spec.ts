/* eslint-disable jupyter/no-untranslated-string -- records hold what people wrote */
import { ServerFrame } from '../../api/frames';
import { Conversation } from '../conversation';
import {
  Log,
  random,
  randomLog,
  recordFrame,
  replay,
  state,
  tool
} from './records';

function delta(
  index: number,
  block: 'start' | 'text' | 'thinking' | 'input',
  rest: object = {}
): ServerFrame {
  return { type: 'delta', turn: 't1', message: 'm1', index, block, ...rest };
}

describe('Conversation, from records', () => {
  for (let seed = 1; seed <= 25; seed++) {
    it(`comes to the same however the records arrive (${seed})`, () => {
      const records = randomLog(seed, 12);
      const whole = replay(records).snapshot();
      const next = random(seed);

      const stepwise = new Conversation(() => 0);
      const resumed = new Conversation(() => 0);
      records.forEach((record, i) => {
        stepwise.apply(recordFrame(record));
        // Taking snapshots in between must not change the result.
        stepwise.snapshot();
        // The stream breaks sometimes, and resumes with records that were seen already.
        if (next() < 0.2) {
          records
            .slice(Math.max(0, i - 5), i)
            .forEach(old => resumed.apply(recordFrame(old)));
        }
        resumed.apply(recordFrame(record));
      });

      expect(stepwise.snapshot()).toEqual(whole);
      expect(resumed.snapshot()).toEqual(whole);
      expect(whole.lastSeq).toBe(records.length);
    });
  }

  it('gives every item a unique key', () => {
    const items = replay(randomLog(99, 200)).snapshot().items;
    expect(new Set(items.map(item => item.key)).size).toBe(items.length);
  });

  it('keeps the identity of items that a record does not touch', () => {
    const records = randomLog(7, 30);
    const conversation = replay(records.slice(0, -1));
    const before = conversation.snapshot().items;
    conversation.apply(recordFrame(records[records.length - 1]));
    const after = conversation.snapshot().items;
    before
      .slice(0, -20)
      .forEach((item, index) => expect(after[index]).toBe(item));
  });

  it('takes ten thousand records in well under a second', () => {
    const records = randomLog(3, 1700);
    expect(records.length).toBeGreaterThan(10_000);
    const start = performance.now();
    const conversation = new Conversation();
    records.forEach(record => {
      conversation.apply(recordFrame(record));
    });
    conversation.snapshot();
    expect(performance.now() - start).toBeLessThan(1000);
  });

  it('ignores records of an unknown kind', () => {
    const log = new Log();
    log.add('hologram', { turn: 't1' });
    const { items, lastSeq } = replay(log.records).snapshot();
    expect(items).toEqual([]);
    expect(lastSeq).toBe(1);
  });

  it('follows settings and title', () => {
    const log = new Log();
    log.add('session_start', {
      notebook: 'a.ipynb',
      provider: 'offline',
      model: 'offline',
      permission_mode: 'ask'
    });
    log.add('title', { title: 'Iris' });
    log.add('settings', { permission_mode: 'auto', user: 'ada' });
    log.add('settings', { notebook: 'b.ipynb' });
    const snapshot = replay(log.records).snapshot();
    expect(snapshot).toMatchObject({
      title: 'Iris',
      notebook: 'b.ipynb',
      model: 'offline',
      permissionMode: 'auto'
    });
    expect(snapshot.items[0]).toMatchObject({
      kind: 'note',
      permissionMode: 'auto',
      model: null,
      user: 'ada'
    });
  });

  it('distinguishes the current model from the one selected for the next compaction', () => {
    const log = new Log();
    log.add('session_start', {
      notebook: 'a.ipynb',
      provider: 'offline',
      model: 'offline',
      permission_mode: 'ask'
    });
    log.add('settings', { model: 'sonnet', provider: 'anthropic' });
    expect(replay(log.records).snapshot()).toMatchObject({
      provider: 'anthropic',
      model: 'sonnet',
      chosenModel: 'sonnet'
    });
    log.add('user_message', { turn: 't1', text: 'hi' });
    log.add('settings', { model: 'opus' });
    const { model, chosenModel, items } = replay(log.records).snapshot();
    expect({ model, chosenModel }).toEqual({
      model: 'sonnet',
      chosenModel: 'opus'
    });
    expect(
      items.map(item => item.kind === 'note' && item.modelPending)
    ).toEqual([false, false, true]);
    log.add('compaction_end', {
      compaction_id: 'k1',
      outcome: 'ok',
      trigger: 'manual',
      tokens_before: 2,
      tokens_after: 1,
      model: 'opus'
    });
    expect(replay(log.records).snapshot().model).toBe('opus');
  });

  it('shows queued messages until they are sent or deleted', () => {
    const log = new Log();
    const first = log.add('queued', { text: 'one', user: 'ada' });
    log.add('queued', { text: 'two' });
    const conversation = replay(log.records);
    expect(conversation.snapshot().queue.map(q => q.text)).toEqual([
      'one',
      'two'
    ]);
    conversation.apply(
      recordFrame(
        log.add('unqueued', { queued_seq: first.seq, reason: 'sent' })
      )
    );
    expect(conversation.snapshot().queue.map(q => q.text)).toEqual(['two']);
  });

  it('adds up the cost of the replies and summaries that have one', () => {
    const log = new Log();
    log.add('assistant_message', { turn: 't1', content: [], model: 'm' });
    expect(replay(log.records).snapshot().costUsd).toBeNull();
    log.add('assistant_message', { turn: 't1', content: [], cost_usd: 0.25 });
    log.add('assistant_message', { turn: 't1', content: [], cost_usd: 0.5 });
    expect(replay(log.records).snapshot().costUsd).toBe(0.75);
    log.add('prefire_end', { outcome: 'ok', cost_usd: 0.125 });
    log.add('compaction_end', {
      compaction_id: 'c1',
      outcome: 'ok',
      trigger: 'auto',
      tokens_before: 2,
      tokens_after: 1,
      cost_usd: 1
    });
    expect(replay(log.records).snapshot().costUsd).toBe(1.875);
  });
});

describe('Conversation, streaming', () => {
  it('grows only the block that a delta is for', () => {
    const conversation = new Conversation(() => 0);
    conversation.apply(delta(0, 'start', { start: { type: 'thinking' } }));
    conversation.apply(delta(0, 'thinking', { text: 'hm' }));
    conversation.apply(delta(1, 'start', { start: { type: 'text' } }));
    const before = conversation.snapshot().items;
    conversation.apply(delta(1, 'text', { text: 'Hello' }));
    conversation.apply(delta(1, 'text', { text: ' there' }));
    const after = conversation.snapshot().items;
    expect(after[0]).toBe(before[0]);
    expect(after[0]).toMatchObject({ text: 'hm', streaming: false });
    expect(after[1]).toMatchObject({ text: 'Hello there', streaming: true });
  });

  it('keeps the keys when the record replaces the stream', () => {
    const log = new Log();
    const conversation = new Conversation(() => 0);
    conversation.apply(
      recordFrame(log.add('user_message', { turn: 't1', text: 'hi' }))
    );
    conversation.apply(delta(0, 'start', { start: { type: 'text' } }));
    conversation.apply(delta(0, 'text', { text: 'Look:' }));
    conversation.apply(
      delta(1, 'start', {
        start: { type: 'tool_use', id: 'c1', name: 'run_code', input: {} }
      })
    );
    conversation.apply(delta(1, 'input', { text: '{"code": "1' }));
    const streamed = conversation.snapshot().items;
    expect(tool(streamed[2])).toMatchObject({
      status: 'writing',
      input: null,
      inputText: '{"code": "1'
    });
    conversation.apply(
      recordFrame(
        log.add('assistant_message', {
          turn: 't1',
          content: [
            { type: 'text', text: 'Look:' },
            {
              type: 'tool_use',
              id: 'c1',
              name: 'run_code',
              input: { code: '1' }
            }
          ]
        })
      )
    );
    const recorded = conversation.snapshot().items;
    expect(recorded.map(item => item.key)).toEqual(
      streamed.map(item => item.key)
    );
    expect(tool(recorded[2])).toMatchObject({
      status: 'waiting',
      input: { code: '1' }
    });
  });

  it('gives a new consumer the text streamed so far, once', () => {
    const conversation = new Conversation(() => 0);
    conversation.apply(delta(0, 'start', { start: { type: 'text' } }));
    conversation.apply(delta(0, 'text', { text: 'so far' }));
    // The connection broke: the client resets the message, and the server sends all of it again.
    conversation.apply({ type: 'delta_reset', turn: 't1', message: 'm1' });
    expect(conversation.snapshot().items).toEqual([]);
    conversation.apply(delta(0, 'start', { start: { type: 'text' } }));
    conversation.apply(delta(0, 'text', { text: 'so far and on' }));
    expect(conversation.snapshot().items).toMatchObject([
      { kind: 'text', text: 'so far and on' }
    ]);
  });

  it('accepts deltas without their start', () => {
    const conversation = new Conversation(() => 0);
    conversation.apply(delta(0, 'text', { text: 'tail' }));
    expect(conversation.snapshot().items).toMatchObject([
      { kind: 'text', text: 'tail' }
    ]);
  });

  it('drops the streamed text if the turn ends without a message', () => {
    const log = new Log();
    const conversation = new Conversation(() => 0);
    conversation.apply(delta(0, 'text', { text: 'half' }));
    conversation.apply(
      recordFrame(log.add('turn_end', { turn: 't1', status: 'error' }))
    );
    expect(conversation.snapshot().items.map(item => item.kind)).toEqual([
      'turn'
    ]);
  });

  it('shows a retry until the stream continues', () => {
    const conversation = new Conversation(() => 1000);
    conversation.apply({
      type: 'state',
      state: state({ running: true, phase: 'retry' })
    });
    conversation.apply({
      type: 'progress',
      what: 'retry',
      message: 'overloaded',
      attempt: 1,
      max_attempts: 6,
      delay_s: 4
    });
    expect(conversation.snapshot().activity).toMatchObject({
      running: true,
      retry: { reason: 'overloaded', attempt: 1, maxAttempts: 6, at: 5000 }
    });
    conversation.apply(delta(0, 'text', { text: 'ok' }));
    expect(conversation.snapshot().activity.retry).toBeNull();
  });

  it('says whether the size of the context is known', () => {
    const conversation = new Conversation(() => 0);
    conversation.apply({ type: 'ready', last_seq: 0, state: state() });
    expect(conversation.snapshot()).toMatchObject({
      ready: true,
      contextTokens: 1000,
      threshold: 10_000,
      kernelState: 'idle'
    });
    conversation.apply({
      type: 'state',
      state: state({ context_tokens: null })
    });
    expect(conversation.snapshot().contextTokens).toBeNull();
  });

  it('returns the same snapshot until something changes', () => {
    const conversation = new Conversation(() => 0);
    const first = conversation.snapshot();
    expect(conversation.snapshot()).toBe(first);
    conversation.apply({ type: 'lease', notebook: 'a.ipynb', held: true });
    expect(conversation.snapshot()).toBe(first);
    conversation.apply({ type: 'state', state: state() });
    expect(conversation.snapshot()).not.toBe(first);
  });
});

describe('Conversation, compaction and restore', () => {
  it('turns a running compaction into its outcome, in place', () => {
    const log = new Log();
    const conversation = new Conversation(() => 0);
    const push = (kind: string, fields: Record<string, unknown>): void =>
      conversation.apply(recordFrame(log.add(kind, fields)));
    push('compaction_start', {
      compaction_id: 'k1',
      trigger: 'manual',
      tokens_before: 900
    });
    push('user_message', { text: 'meanwhile' });
    expect(conversation.snapshot().items[0]).toMatchObject({
      kind: 'compaction',
      status: 'running'
    });
    push('compaction_end', {
      compaction_id: 'k1',
      outcome: 'ok',
      trigger: 'manual',
      path: 'single_pass',
      tokens_before: 900,
      tokens_after: 90,
      compaction_count: 3,
      kernel_state: { status: 'busy', age_s: 720 },
      summary: '<compaction-summary>…</compaction-summary>'
    });
    expect(conversation.snapshot().items).toHaveLength(2);
    expect(conversation.snapshot().items[0]).toMatchObject({
      status: 'ok',
      path: 'single_pass',
      tokensAfter: 90,
      kernelState: { status: 'busy', age_s: 720 }
    });
    expect(conversation.snapshot().compactionCount).toBe(3);
  });

  it('keeps an offer to restore open until it is answered', () => {
    const log = new Log();
    log.add('restore', {
      outcome: 'offered',
      mode: 'cold',
      trigger: 'restart',
      snapshot_id: 's1'
    });
    expect(replay(log.records).snapshot().items).toMatchObject([
      { kind: 'restore', outcome: 'offered', snapshotId: 's1' }
    ]);
    log.add('restore', {
      outcome: 'ok',
      mode: 'cold',
      trigger: 'manual',
      snapshot_id: 's1',
      names: { df: { status: 'verified' } }
    });
    expect(replay(log.records).snapshot().items).toMatchObject([
      { kind: 'restore', outcome: 'offered', snapshotId: null },
      { kind: 'restore', outcome: 'ok', snapshotId: null, restored: 1 }
    ]);
  });

  it('offers to load a skipped variable until a later restore reports it', () => {
    const log = new Log();
    const restored = (
      snapshot_id: string,
      names: Record<string, unknown>
    ): void => {
      log.add('restore', {
        outcome: 'partial',
        mode: 'cold',
        trigger: 'crash',
        snapshot_id,
        names
      });
    };
    const loadable = (): unknown[] =>
      replay(log.records)
        .snapshot()
        .items.map(item =>
          item.kind === 'restore'
            ? item.missing.map(entry => [entry.name, entry.loadableFrom])
            : []
        );
    const skipped = { status: 'skipped', action: 'none' };
    restored('s1', {
      a: { ...skipped, left_out: 'hung' },
      b: { ...skipped, left_out: 'ended' },
      c: skipped
    });
    expect(loadable()).toEqual([
      [
        ['a', 's1'],
        ['b', 's1'],
        ['c', null]
      ]
    ]);
    restored('s1', { a: { status: 'verified', action: 'loaded' } });
    expect(loadable()).toEqual([
      [
        ['a', null],
        ['b', 's1'],
        ['c', null]
      ],
      []
    ]);
    restored('s2', { b: { ...skipped, left_out: 'interrupted' } });
    expect(loadable().slice(1)).toEqual([[], [['b', 's2']]]);
    log.add('snapshot', { outcome: 'removed', trigger: 'off' });
    expect(loadable().slice(1, 3)).toEqual([[], [['b', null]]]);
  });

  it.each([
    ['off', 1],
    ['limit', 2]
  ])(
    'withdraws an offer when the snapshots are deleted: %s',
    (trigger, count) => {
      const log = new Log();
      log.add('restore', {
        outcome: 'offered',
        mode: 'cold',
        trigger: 'resume',
        snapshot_id: 's1'
      });
      log.add('snapshot', { outcome: 'ok', trigger: 'turn' });
      log.add('snapshot', { outcome: 'removed', trigger });
      const { items } = replay(log.records).snapshot();
      expect(items).toHaveLength(count);
      expect(items[0]).toMatchObject({ kind: 'restore', snapshotId: null });
    }
  );

  it('has a note for switched saving, but not for a changed preference', () => {
    const log = new Log();
    log.add('settings', { restore: 'never' });
    log.add('settings', { snapshots: false });
    expect(replay(log.records).snapshot().items).toMatchObject([
      { kind: 'note', snapshots: false }
    ]);
  });

  it('shows a restore after a crash, but not one after a compaction', () => {
    const log = new Log();
    log.add('restore', { outcome: 'ok', mode: 'hot', trigger: 'compaction' });
    log.add('restore', {
      outcome: 'partial',
      mode: 'cold',
      trigger: 'crash',
      names: {
        df: { status: 'verified' },
        lock: { status: 'skipped', reason: 'a lock cannot be saved' }
      }
    });
    expect(replay(log.records).snapshot().items).toMatchObject([
      {
        kind: 'restore',
        outcome: 'partial',
        restored: 1,
        missing: [{ name: 'lock', reason: 'a lock cannot be saved' }]
      }
    ]);
  });
});
