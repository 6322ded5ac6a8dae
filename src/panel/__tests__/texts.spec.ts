import { nullTranslator } from '@jupyterlab/translation';

import { LeftOut } from '../../api/records';
import { Conversation } from '../../model/conversation';
import { ICompactionItem } from '../../model/items';
import { restoreItem } from '../../model/recordItems';
import { Log, recordFrame, state } from '../../model/__tests__/records';
import { announcement } from '../announcements';
import { likelyFirst } from '../attachSession';
import { compactionLine, summaryParts } from '../compactionText';
import { meterReading } from '../contextMeter';
import { age, cost, duration, fileSize, shortCount } from '../format';
import { hintFor } from '../hints';
import { InputHistory } from '../inputHistory';
import { reasonText } from '../reasonText';
import { missingReason, restoreLine } from '../restoreText';
import { revertLine } from '../revertText';
import { completions, localCommand, slashCommands } from '../slash';
import { EMPTY_STATE } from '../state';
import { toolFace, toolSummary } from '../tools';

const trans = nullTranslator.load('prime_ext');

const compaction: ICompactionItem = {
  kind: 'compaction',
  key: 'k',
  turn: null,
  status: 'ok',
  trigger: 'threshold',
  path: 'single_pass',
  tokensBefore: 300_000,
  tokensAfter: 20_000,
  waitMs: 100,
  count: 1,
  kernelState: { status: 'current' },
  summary: null,
  reason: null
};

describe('reasonText', () => {
  it('is the panel’s text if the code is known, else the server’s', () => {
    const reason = 'Cell a1 does not hold what you expect: …';
    const conflict = { code: 'cell_conflict', reason };
    expect(reasonText({ ...conflict, op: 'edit_cell' }, trans)).toBe(
      'You changed this cell in the meantime; your version was kept.'
    );
    expect(reasonText({ ...conflict, op: 'run_cell' }, trans)).toBe(
      'You changed this cell in the meantime; it was not run.'
    );
    // It may have been deleted, or never have existed.
    expect(reasonText({ code: 'cell_not_found', reason }, trans)).toBe(
      'There is no such cell.'
    );
    expect(reasonText({ code: 'cell_locked', reason }, trans)).toContain(
      'locked by its author'
    );
    expect(
      reasonText({ code: 'outputs_of_earlier_source', reason }, trans)
    ).toContain('of the source that was run');
    expect(
      reasonText({ code: 'save_failed', reason: 'Permission denied' }, trans)
    ).toBe('Not saved: Permission denied');
    expect(reasonText({ code: 'of_a_newer_server', reason }, trans)).toBe(
      reason
    );
    expect(reasonText({ code: null, reason: null }, trans)).toBe('');
  });
});

describe('restoreLine', () => {
  const restore = (
    outcome: string,
    trigger = 'crash',
    names: Record<string, object> = {}
  ): string =>
    restoreLine(
      restoreItem({ kind: 'restore', outcome, trigger, names } as any)!,
      trans
    );

  it.each([
    [
      'ok',
      'crash',
      'The kernel died and was started again: 2 variables restored.'
    ],
    [
      'offered',
      'shutdown',
      'The kernel was shut down; its variables were saved.'
    ],
    [
      'failed',
      'resume',
      'The earlier kernel is gone; its variables could not be restored.'
    ],
    [
      'skipped',
      'restart',
      'The kernel was restarted; its variables were not restored.'
    ],
    ['unchanged', 'manual', 'Kernel state: every variable is as it was saved.']
  ])('says %s after %s', (outcome, trigger, expected) => {
    const names = {
      a: { status: 'verified', action: 'loaded' },
      b: { status: 'unverified', action: 'loaded' },
      mine: { status: 'verified', action: 'kept', reason: 'changed since' }
    };
    expect(restore(outcome, trigger, names)).toBe(expected);
  });

  it('tells that what is offered is older than the lost process', () => {
    const saved = '2026-11-30T12:00:03.000+00:00';
    const record = {
      kind: 'restore',
      outcome: 'offered',
      trigger: 'restart',
      snapshot_id: 's1',
      saved
    };
    const when = new Date(saved).toLocaleString();
    expect(restoreLine(restoreItem(record as any)!, trans)).toBe(
      `The kernel was restarted; it had no variables. Earlier ones, as of ${when}, can be restored.`
    );
  });

  it('does not say of an empty snapshot that all is as it was', () => {
    const record = {
      kind: 'restore',
      outcome: 'unchanged',
      trigger: 'manual',
      empty: true
    };
    expect(restoreLine(restoreItem(record as any)!, trans)).toBe(
      'Kernel state: the snapshot has no variables, so there was nothing to restore.'
    );
  });

  it.each([
    [1, 'what 1 later run did is not in them.'],
    [12, 'what 12 later runs did is not in them.']
  ])('says that the variables are older than %s runs', (runs, expected) => {
    const as_of = '2026-11-30T12:00:03.000+00:00';
    const record = {
      kind: 'restore',
      outcome: 'ok',
      trigger: 'crash',
      names: { a: { status: 'verified', action: 'loaded' } },
      behind: { as_of, runs, code: ['b = 77'] }
    };
    const when = new Date(as_of).toLocaleString();
    expect(restoreLine(restoreItem(record as any)!, trans)).toBe(
      `The kernel died and was started again: 1 variable restored. They are as of ${when}; ${expected}`
    );
  });

  it('counts variables that are not as they were, but not those that the user keeps', () => {
    const names = {
      a: { status: 'verified', action: 'loaded' },
      stream: { status: 'degraded', action: 'loaded', reason: 'generator' },
      probe: {
        status: 'skipped',
        action: 'none',
        reason: 'gone',
        recipe: { source: 'probe = 1' }
      },
      left: { status: 'skipped', action: 'kept' }
    };
    expect(restore('partial', 'crash', names)).toContain(
      '1 variable restored, 2 are not as they were.'
    );
    const item = restoreItem({
      kind: 'restore',
      outcome: 'partial',
      trigger: 'crash',
      names
    } as any)!;
    expect(item.missing).toEqual([
      {
        name: 'stream',
        reason: 'generator',
        placeholder: true,
        source: null,
        leftOut: null,
        loadableFrom: null
      },
      {
        name: 'probe',
        reason: 'gone',
        placeholder: false,
        source: 'probe = 1',
        leftOut: null,
        loadableFrom: null
      }
    ]);
  });

  it.each([
    ['verified', 'loaded', 'Loaded: df.'],
    ['degraded', 'loaded', 'Loaded, but not as it was: df.'],
    ['skipped', 'none', 'Could not be loaded: df.'],
    ['verified', 'kept', 'Left as it is in the kernel now: df.']
  ])(
    'names a variable that was requested (%s, %s): %s',
    (status, action, expected) => {
      const names = { df: { status, action } };
      const asked = restoreItem({
        kind: 'restore',
        outcome: 'partial',
        trigger: 'manual',
        names,
        asked: ['df']
      } as any)!;
      expect(restoreLine(asked, trans)).toBe(expected);
    }
  );

  it('translates why a variable was skipped, else shows the server’s reason', () => {
    const reason = 'left out: …';
    const why = (leftOut: LeftOut | null): string =>
      missingReason({ leftOut, reason } as any, trans);
    expect(why('ended')).toContain('it ended the process that read it back');
    expect(why('interrupted')).toBe('loading it was stopped');
    expect(why(null)).toBe(reason);
  });

  it('does not show the restore after a compaction', () => {
    for (const outcome of ['ok', 'unchanged', 'skipped', 'failed']) {
      expect(
        restoreItem({ kind: 'restore', outcome, trigger: 'compaction' } as any)
      ).toBeNull();
    }
  });
});

describe('fileSize', () => {
  it.each([
    [0, '0 MB'],
    [20_000, '0.1 MB'],
    [1_250_000, '1.3 MB'],
    [12_400_000, '12 MB'],
    [1_500_000_000, '1.5 GB']
  ])('%d bytes are %s', (bytes, expected) => {
    expect(fileSize(bytes)).toBe(expected);
  });
});

describe('revertLine', () => {
  const file = (outcome: string) => ({
    path: 'a.py',
    outcome,
    code: null,
    reason: null
  });
  const cell = (outcome: string) => ({
    id: 'a',
    outcome,
    code: null,
    reason: null,
    current: null,
    earlier: null,
    outputs: null as string | null
  });

  it('mentions the outputs', () => {
    const cells = ['restored', 'cleared', 'cleared'].map(outputs => ({
      ...cell('restored'),
      outputs
    }));
    expect(revertLine({ cells, files: [], unsaved: null }, trans)).toBe(
      '3 cells reverted · outputs of 1 cell as before · outputs of 2 cells cleared'
    );
  });

  it.each([
    [['restored', 'removed'], [], '2 cells reverted'],
    [['moved', 'conflict'], [], '1 cell reverted · 1 left as it is'],
    [[], ['restored', 'failed'], '1 file reverted · 1 left as it is'],
    [['conflict', 'failed'], [], '2 left as they are'],
    [[], [], 'Nothing to revert: all is as it was before the turn.']
  ])('cells %j, files %j', (cells, files, line) => {
    const revert = {
      cells: cells.map(cell),
      files: files.map(file),
      unsaved: null
    };
    expect(revertLine(revert, trans)).toBe(line);
  });
});

describe('likelyFirst', () => {
  it('puts sessions of a notebook of the same name first', () => {
    const lost = ['a/x.ipynb', 'b/work.ipynb', 'c/y.ipynb'].map(notebook => ({
      id: notebook,
      notebook,
      title: null,
      created: '',
      updated: '',
      records: 1,
      approvals: [],
      activity: 'idle' as const
    }));
    expect(likelyFirst(lost, 'work.ipynb').map(({ id }) => id)).toEqual([
      'b/work.ipynb',
      'a/x.ipynb',
      'c/y.ipynb'
    ]);
  });
});

describe('compactionLine', () => {
  it('says that the state is preserved if the snapshot is current', () => {
    expect(compactionLine(compaction, trans)).toBe(
      '[compaction] context reduced, kernel state preserved'
    );
  });

  it.each([
    [{ status: 'busy', age_s: 720 }, 'kernel busy, last snapshot 12 min ago'],
    [{ status: 'busy' }, 'kernel busy, no snapshot yet'],
    [{ status: 'stale', age_s: 7200 }, 'last kernel snapshot 2 h ago'],
    [{ status: 'none' }, 'no kernel state to preserve'],
    [
      { status: 'current', unrestored: 1 },
      '1 variable of the former kernel is not restored'
    ],
    [
      { status: 'current', unrestored: 3 },
      '3 variables of the former kernel are not restored'
    ],
    [{}, 'no kernel state to preserve']
  ])('never says so otherwise: %j', (kernelState, expected) => {
    const line = compactionLine(
      { ...compaction, kernelState } as ICompactionItem,
      trans
    );
    expect(line).toBe(`[compaction] context reduced; ${expected}`);
    expect(line).not.toContain('preserved');
  });

  it('says that nothing is saved if a user has switched that off', () => {
    const kernelState = { status: 'none' as const, off: true };
    expect(compactionLine({ ...compaction, kernelState }, trans)).toBe(
      '[compaction] context reduced; variables are not saved, snapshots are off'
    );
  });

  it('distinguishes other outcomes', () => {
    const line = (changes: Partial<ICompactionItem>): string =>
      compactionLine({ ...compaction, ...changes }, trans);
    expect(line({ path: 'prune' })).toContain('old tool outputs shortened');
    expect(line({ status: 'failed', reason: 'no answer' })).toContain(
      'failed: no answer'
    );
    expect(line({ status: 'skipped', reason: 'small' })).toContain(
      'not needed: small'
    );
    expect(line({ status: 'cancelled' })).toContain('cancelled');
    expect(line({ status: 'running' })).toContain('reducing');
  });

  it('splits the summary turn', () => {
    expect(
      summaryParts(
        '<compaction-summary>\n# Goals\nx\n<recovery_hint>\nSearch.\n</recovery_hint>\n</compaction-summary>',
        trans
      )
    ).toEqual({ summary: '# Goals\nx', hint: 'Search.' });
    expect(
      summaryParts(
        'x <b>\n<ledger>\n- [2] y\n</ledger>\n<last_user_message>\nplot it\n</last_user_message>\n<kernel_state>\nIt runs on.\n</kernel_state>',
        trans
      ).summary.split(/\n+/)
    ).toEqual([
      'x <b>',
      '## Exact details',
      '- [2] y',
      '## Last message',
      'plot it',
      '## Kernel',
      'It runs on.'
    ]);
  });
});

describe('meterReading', () => {
  function reading(tokens: number | null, threshold: number) {
    const conversation = new Conversation(() => 0);
    conversation.apply({
      type: 'ready',
      last_seq: 0,
      state: state({ context_tokens: tokens, threshold })
    });
    return meterReading(conversation.snapshot(), trans);
  }

  it('shows the share of the threshold', () => {
    expect(reading(75_000, 300_000)).toMatchObject({
      share: 0.25,
      label: '25%'
    });
    expect(reading(400_000, 300_000).share).toBe(1);
  });

  it('says when the size is not known', () => {
    const unknown = reading(null, 300_000);
    expect(unknown).toMatchObject({ share: null, label: '–' });
    expect(unknown.details).toContain('size unknown until the next reply');
  });

  it('is empty before the first message', () => {
    expect(meterReading(null, trans)).toMatchObject({ share: 0, label: '0%' });
  });
});

describe('format', () => {
  it.each([
    [12, '12 ms'],
    [400, '0.4 s'],
    [12_400, '12 s'],
    [59_600, '1 min 0 s'],
    [185_000, '3 min 5 s'],
    [7_800_000, '2 h 10 min']
  ])('duration %d', (ms, expected) => {
    expect(duration(ms, trans)).toBe(expected);
  });

  it.each([
    [40, '40 s'],
    [720, '12 min'],
    [9000, '3 h'],
    [200_000, '2 d']
  ])('age %d', (seconds, expected) => {
    expect(age(seconds, trans)).toBe(expected);
  });

  it.each([
    [850, '850'],
    [4242, '4.2k'],
    [9960, '10k'],
    [128_400, '128k'],
    [999_600, '1.0M']
  ])('count %d', (count, expected) => {
    expect(shortCount(count)).toBe(expected);
  });

  it('cost', () => {
    expect(cost(0.004)).toBe('<\u00a0$0.01');
    expect(cost(1.239)).toBe('$1.24');
  });
});

describe('slash commands', () => {
  const commands = slashCommands(trans);
  const names = (text: string): string[] =>
    completions(commands, text).map(({ name }) => name);

  it('completes the start of a command and nothing else', () => {
    expect(names('/')).toEqual(['help', 'tour', 'compact', 'new']);
    expect(names('/Co')).toEqual(['compact']);
    expect(names('/compact ')).toEqual([]);
    expect(names('see /c')).toEqual([]);
    expect(names('/x')).toEqual([]);
  });

  it('executes only the panel’s own commands', () => {
    expect(localCommand(' /compact  keep\nall ')).toEqual({
      name: 'compact',
      rest: 'keep\nall'
    });
    expect(localCommand('/NEW')).toEqual({ name: 'new', rest: '' });
    expect(localCommand('/newer')).toBeNull();
    expect(localCommand('/help')).toEqual({ name: 'help', rest: '' });
    expect(localCommand('/tour')).toBeNull();
    expect(localCommand('what does /new do?')).toBeNull();
  });
});

describe('InputHistory', () => {
  it('goes back, forth, and to the unsent text', () => {
    const history = new InputHistory();
    const sent = ['one', 'two'];
    expect(history.move('older', sent, 'dra')).toBe('two');
    expect(history.move('older', sent, 'two')).toBe('one');
    expect(history.move('older', sent, 'one')).toBeNull();
    expect(history.move('newer', sent, 'one')).toBe('two');
    expect(history.move('newer', sent, 'two')).toBe('dra');
    expect(history.move('newer', sent, 'dra')).toBeNull();
  });

  it('starts over after the text was edited', () => {
    const history = new InputHistory();
    history.move('older', ['one', 'two'], '');
    history.reset();
    expect(history.move('older', ['one', 'two'], 'x')).toBe('two');
    expect(history.move('newer', ['one', 'two'], 'two')).toBe('x');
  });
});

describe('tools', () => {
  it('summarizes code by its first informative line', () => {
    const face = toolFace('run_code', trans);
    expect(
      toolSummary(face, { code: '# load\nimport pandas\n\ndf = load()\n' })
    ).toBe('df = load()');
    expect(toolSummary(face, { code: '# only a comment' })).toBe(
      '# only a comment'
    );
    expect(toolSummary(face, {})).toBe('');
  });

  it('shows a tool it does not know by its name', () => {
    expect(toolFace('launch_rocket', trans).name).toBe('launch_rocket');
  });
});

describe('hintFor', () => {
  const running = { ...EMPTY_STATE, sending: 'hello' };

  it('fits the current state, and is shown once', () => {
    expect(hintFor(EMPTY_STATE, new Set(), trans)).toBeNull();
    expect(hintFor(running, new Set(), trans)?.id).toBe('queue');
    expect(hintFor(running, new Set(['queue']), trans)).toBeNull();
  });
});

describe('announcement', () => {
  function said(kind: string, fields: Record<string, unknown>): string | null {
    const log = new Log();
    const conversation = new Conversation(() => 0);
    const frame = recordFrame(log.add(kind, fields));
    conversation.apply(frame);
    return announcement(frame, conversation.snapshot(), trans);
  }

  it('announces what happens to queued messages', () => {
    expect(said('queued', { text: 'hi' })).toBe('Message queued');
    expect(said('unqueued', { queued_seq: 1, reason: 'sent' })).toBe(
      'Queued message sent'
    );
    expect(said('unqueued', { queued_seq: 1, reason: 'deleted' })).toBe(
      'Queued message removed'
    );
  });

  it('announces approvals, errors and compactions', () => {
    expect(
      said('approval_request', {
        call_id: 'c',
        what: 'tool',
        summary: 'Run code'
      })
    ).toBe('Decision needed: Run code');
    expect(
      said('error', { code: 'x', message: 'It broke.', hint: 'Mend it.' })
    ).toBe('It broke. Mend it.');
    expect(
      said('compaction_end', {
        compaction_id: 'k',
        outcome: 'ok',
        trigger: 'manual',
        tokens_before: 2,
        tokens_after: 1,
        kernel_state: { status: 'current' }
      })
    ).toBe('[compaction] context reduced, kernel state preserved');
  });

  it('announces a complete answer, but not single words', () => {
    const conversation = new Conversation(() => 0);
    const delta: any = {
      type: 'delta',
      turn: 't',
      message: 'm',
      index: 0,
      block: 'text',
      text: 'Forty-two.'
    };
    conversation.apply(delta);
    expect(announcement(delta, conversation.snapshot(), trans)).toBeNull();
    expect(
      announcement(
        { type: 'message_complete', turn: 't', seq: 3 },
        conversation.snapshot(),
        trans
      )
    ).toBe('Answer complete. Forty-two.');
  });
});
