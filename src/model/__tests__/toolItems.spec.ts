import { IOutput } from '../../api/frames';
import { IToolItem } from '../items';
import { Log, recordFrame, replay, tool } from './records';

describe('Conversation, tool calls', () => {
  let log: Log;

  function call(name: string, input: object, id = 'c1'): void {
    log.add('assistant_message', {
      turn: 't1',
      content: [{ type: 'tool_use', id, name, input }],
      model: 'm'
    });
  }

  beforeEach(() => {
    log = new Log();
  });

  it('waits, asks, runs and ends', () => {
    call('run_code', { code: '1 + 1' });
    const conversation = replay(log.records);
    const status = (): string => tool(conversation.snapshot().items[0]).status;
    expect(status()).toBe('waiting');

    const push = (kind: string, fields: Record<string, unknown>): void =>
      conversation.apply(
        recordFrame(log.add(kind, { turn: 't1', call_id: 'c1', ...fields }))
      );
    push('approval_request', { what: 'tool', summary: 'Run code' });
    expect(status()).toBe('approval');
    push('approval', { decision: 'allow', scope: 'session', user: 'ada' });
    expect(status()).toBe('waiting');
    expect(tool(conversation.snapshot().items[0]).approval).toMatchObject({
      decision: 'allow',
      scope: 'session',
      user: 'ada'
    });

    conversation.apply({
      type: 'progress',
      what: 'tool',
      call_id: 'c1',
      started: '2026-01-02T03:04:05.000Z',
      outputs: [{ output_type: 'stream', name: 'stdout', text: '1' }]
    });
    expect(status()).toBe('running');
    expect(tool(conversation.snapshot().items[0]).outputs).toHaveLength(1);

    push('tool_result', {
      tool_use_id: 'c1',
      name: 'run_code',
      content: [{ type: 'text', text: '2' }],
      duration_ms: 12
    });
    const ended = tool(conversation.snapshot().items[0]);
    expect(ended).toMatchObject({
      status: 'ok',
      durationMs: 12,
      startedAt: null,
      outputs: []
    });

    // A progress frame that comes late changes nothing.
    conversation.apply({
      type: 'progress',
      what: 'tool',
      call_id: 'c1',
      outputs: [{ output_type: 'stream', name: 'stdout', text: 'old' }]
    });
    expect(tool(conversation.snapshot().items[0])).toEqual(ended);
  });

  describe('of a run that outlasts its call', () => {
    const shown = (text: string): object[] => [
      { output_type: 'stream', name: 'stdout', text }
    ];
    const result = (id: string, fields: object): void => {
      log.add('tool_result', {
        turn: 't1',
        tool_use_id: id,
        name: 'x',
        content: [{ type: 'text', text: `told by ${id}` }],
        run: 'c1',
        ...fields
      });
    };
    const first = (): IToolItem =>
      tool(replay(log.records).snapshot().items[0]);

    beforeEach(() => {
      call('run_code', { code: 'train()' });
      result('c1', {
        goes_on: true,
        outputs: shown('early'),
        duration_ms: 5000
      });
    });

    it('shows outputs after the end of its turn, and its own end', () => {
      log.add('turn_end', { turn: 't1', status: 'interrupted' });
      expect(first()).toMatchObject({
        status: 'running',
        outputs: shown('early'),
        startedAt: Date.parse('2026-01-02T03:04:00.000Z')
      });

      const conversation = replay(log.records);
      conversation.apply({
        type: 'progress',
        what: 'tool',
        call_id: 'c1',
        outputs: shown('early, late') as IOutput[]
      });
      expect(tool(conversation.snapshot().items[0])).toMatchObject({
        status: 'running',
        outputs: shown('early, late')
      });

      const end = log.add('run_end', {
        turn: 't1',
        tool_use_id: 'c1',
        content: [
          { type: 'text', text: 'It has ended: [image 1]' },
          { type: 'image', source: { type: 'base64', data: 'iVBORw==' } }
        ],
        outputs: [
          {
            output_type: 'display_data',
            data: { 'image/png': { content_index: 1 } }
          }
        ],
        output_file: 'c1-end.txt',
        duration_ms: 9000
      });
      conversation.apply(recordFrame(end));
      expect(first()).toMatchObject({
        status: 'ok',
        outputs: [{ data: { 'image/png': 'iVBORw==' } }],
        outputFile: 'c1-end.txt',
        durationMs: 9000,
        startedAt: null
      });
      expect(tool(conversation.snapshot().items[0])).toEqual(first());
    });

    it('ends with the call that waited for its end, not with one whose wait timed out', () => {
      call('wait_for_run', {}, 'c2');
      result('c2', { goes_on: true });
      expect(first().status).toBe('running');
      call('interrupt_run', {}, 'c3');
      result('c3', { is_error: true });
      expect(first()).toMatchObject({
        status: 'error',
        outputs: shown('early'),
        content: [{ text: 'told by c3' }]
      });
    });

    it('is stopped if the end of the session cut it off', () => {
      log.add('run_end', {
        turn: 't1',
        tool_use_id: 'c1',
        content: [],
        is_error: true,
        synthetic: true
      });
      expect(first().status).toBe('stopped');
    });
  });

  it('distinguishes denied, failed and stopped calls', () => {
    call('run_code', { code: '1' }, 'denied');
    call('run_code', { code: '2' }, 'failed');
    call('run_code', { code: '3' }, 'cut');
    call('run_code', { code: '4' }, 'never');
    log.add('approval_request', {
      turn: 't1',
      call_id: 'denied',
      what: 'tool',
      summary: ''
    });
    log.add('approval', { turn: 't1', call_id: 'denied', decision: 'deny' });
    for (const id of ['denied', 'failed', 'cut']) {
      log.add('tool_result', {
        turn: 't1',
        tool_use_id: id,
        content: [],
        is_error: true,
        synthetic: id === 'cut'
      });
    }
    log.add('turn_end', { turn: 't1', status: 'crashed' });
    expect(
      replay(log.records)
        .snapshot()
        .items.slice(0, 4)
        .map(item => tool(item).status)
    ).toEqual(['denied', 'error', 'stopped', 'stopped']);
  });

  it('voids an approval whose call was stopped', () => {
    call('run_code', { code: '1' });
    log.add('approval_request', {
      turn: 't1',
      call_id: 'c1',
      what: 'tool',
      summary: ''
    });
    log.add('tool_result', {
      turn: 't1',
      tool_use_id: 'c1',
      content: [],
      is_error: true,
      synthetic: true
    });
    const stopped = tool(replay(log.records).snapshot().items[0]);
    expect(stopped.status).toBe('stopped');
    expect(stopped.approval?.decision).toBe('void');
  });

  it('voids an approval whose turn is over', () => {
    call('run_code', { code: '1' });
    log.add('approval_request', {
      turn: 't1',
      call_id: 'c1',
      what: 'tool',
      summary: ''
    });
    log.add('approval_request', {
      turn: 't1',
      call_id: 'limit-1',
      what: 'limit',
      summary: 'Go on?'
    });
    log.add('turn_end', { turn: 't1', status: 'interrupted' });
    const { items } = replay(log.records).snapshot();
    expect(tool(items[0]).approval?.decision).toBe('void');
    expect(items[1]).toMatchObject({
      kind: 'approval',
      approval: { what: 'limit', decision: 'void' }
    });
  });

  it('shows consent as a separate item, with the user who decided', () => {
    log.add('approval_request', {
      turn: 't1',
      call_id: 'consent',
      what: 'consent',
      summary: 'Send to api.example.com?'
    });
    log.add('approval', {
      turn: 't1',
      call_id: 'consent',
      decision: 'allow',
      user: 'ada'
    });
    expect(replay(log.records).snapshot().items[0]).toMatchObject({
      kind: 'approval',
      approval: { decision: 'allow', user: 'ada' }
    });
  });

  it('links each change of the notebook to the call that made it', () => {
    log.add('assistant_message', {
      turn: 't1',
      content: [
        {
          type: 'tool_use',
          id: 'a',
          name: 'edit_cell',
          input: { cell_id: 'one', source: 'x' }
        },
        {
          type: 'tool_use',
          id: 'b',
          name: 'edit_cell',
          input: { cell_id: 'two', source: 'y' }
        },
        {
          type: 'tool_use',
          id: 'c',
          name: 'insert_cell',
          input: { source: 'z' }
        }
      ]
    });
    const op = { turn: 't1', status: 'applied', writer: 'browser' };
    log.add('notebook_op', { ...op, op: 'edit_cell', cell_id: 'two' });
    log.add('notebook_op', { ...op, op: 'insert_cell', cell_id: 'new' });
    log.add('notebook_op', {
      ...op,
      op: 'edit_cell',
      cell_id: 'one',
      status: 'conflict'
    });
    const items = replay(log.records).snapshot().items;
    expect(items.map(item => tool(item).change?.cellId)).toEqual([
      'one',
      'two',
      'new'
    ]);
    expect(tool(items[0]).change?.status).toBe('conflict');
  });

  it('knows the changes of a turn, and the outcome of reverting them', () => {
    const op = { turn: 't1', status: 'applied', writer: 'browser' };
    const image = (source: string, index: number) => ({ source, index });
    log.add('notebook_op', {
      ...op,
      op: 'edit_cell',
      cell_id: 'one',
      before: image('1', 0),
      after: image('2', 0)
    });
    // Operations without a change do not count: a run, the same source again, a conflict.
    log.add('notebook_op', {
      ...op,
      op: 'run_cell',
      cell_id: 'two',
      before: image('2', 1),
      after: image('2', 1)
    });
    log.add('notebook_op', {
      ...op,
      op: 'edit_cell',
      cell_id: 'three',
      before: image('3', 2),
      after: image('3', 2)
    });
    log.add('notebook_op', {
      ...op,
      op: 'edit_cell',
      cell_id: 'four',
      status: 'conflict',
      before: { source: '4' }
    });
    log.add('notebook_op', {
      ...op,
      op: 'delete_cell',
      cell_id: 'five',
      before: image('5', 4)
    });
    log.add('file_change', { turn: 't1', path: 'a.py' });
    log.add('file_change', { turn: 't1', path: 'a.py' });
    log.add('turn_end', { turn: 't1', status: 'ok' });
    const last = () => {
      const item = replay(log.records).snapshot().items.slice(-1)[0];
      return item.kind === 'turn' ? item : null;
    };
    expect(last()?.changes).toEqual({ cells: 2, files: 1 });
    expect(last()?.revert).toBeNull();

    const conflict = {
      cell_id: 'one',
      outcome: 'conflict',
      code: 'changed_since',
      reason: 'It was changed since.',
      current: 'mine',
      earlier: '1'
    };
    log.add('revert', {
      turn: 't1',
      cells: [conflict, { cell_id: 'five', outcome: 'inserted' }],
      files: [{ path: 'a.py', outcome: 'restored' }]
    });
    expect(last()?.revert?.cells).toMatchObject([
      { outcome: 'conflict', code: 'changed_since' },
      { outcome: 'inserted', code: null }
    ]);
    log.add('revert', {
      turn: 't1',
      cells: [{ cell_id: 'one', outcome: 'restored' }]
    });
    const { revert } = last()!;
    expect(revert?.cells.map(({ id, outcome }) => [id, outcome])).toEqual([
      ['five', 'inserted'],
      ['one', 'restored']
    ]);
    expect(revert?.files).toHaveLength(1);
  });

  it('fills in images that are stored in the content', () => {
    call('run_code', { code: 'plot()' });
    log.add('tool_result', {
      turn: 't1',
      tool_use_id: 'c1',
      content: [
        { type: 'text', text: '<Figure>' },
        {
          type: 'image',
          source: { type: 'base64', media_type: 'image/png', data: 'iVBOR' }
        }
      ],
      outputs: [
        {
          output_type: 'display_data',
          data: { 'image/png': { content_index: 1 }, 'text/plain': '<Figure>' },
          metadata: {}
        }
      ]
    });
    expect(
      tool(replay(log.records).snapshot().items[0]).outputs[0].data
    ).toEqual({ 'image/png': 'iVBOR', 'text/plain': '<Figure>' });
  });
});
