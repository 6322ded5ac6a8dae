import { Signal } from '@lumino/signaling';

import { IAttachment } from '../../api/attachments';
import { ErrorFrame, ServerFrame } from '../../api/frames';
import { ApiError, PrimeApi } from '../../api/rest';
import { Log, recordFrame, state } from '../../model/__tests__/records';
import { ISessions, ISessionStream, ISessionStreams } from '../../tokens';
import { PanelController } from '../controller';
import { Drafts } from '../drafts';
import { permissionModeOf, messageToRetry } from '../state';

class FakeStream {
  frames: ServerFrame[] = [];
  status = 'connected';
  refusal: ErrorFrame | null = null;
  disposed = false;
  frameReceived = new Signal<any, ServerFrame>(this);
  connectionChanged = new Signal<any, any>(this);

  replay(): ServerFrame[] {
    return this.frames;
  }

  reconnect(): void {
    /* Nothing to do: it is connected. */
  }

  dispose(): void {
    this.disposed = true;
    Signal.clearData(this);
  }
}

class FakeSessions {
  chosen = new Map<string, string | null>();
  changed = new Signal<any, ISessions.IChange>(this);
  create = jest.fn(async ({ notebook }: { notebook: string }) => {
    await this.select(notebook, 'made');
    return { id: 'made' };
  });
  patch = jest.fn(async () => ({}));
  delete = jest.fn(async () => undefined);
  forget = jest.fn(async () => undefined);
  list = jest.fn(async () => []);
  get = jest.fn(async () => ({ snapshots: { restore: 'auto', bytes: 12 } }));

  async resolve(notebook: string): Promise<string | null> {
    return this.chosen.get(notebook) ?? null;
  }

  async select(notebook: string, id: string | null): Promise<void> {
    this.chosen.set(notebook, id);
    this.changed.emit({ notebook, current: id });
  }
}

/** A promise that the test settles. */
class Gate {
  promise: Promise<any>;
  open!: (value?: any) => void;
  fail!: (reason: unknown) => void;

  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.open = resolve;
      this.fail = reject;
    });
  }
}

describe('PanelController', () => {
  let api: Record<string, jest.Mock>;
  let sessions: FakeSessions;
  let streams: Map<string, FakeStream>;
  let controller: PanelController;
  let storage: Map<string, string>;
  let scheduled: (() => void)[];
  let claimed: jest.Mock;
  let refused: ErrorFrame | null;

  function drafts(): Drafts {
    return new Drafts(
      {
        getItem: key => storage.get(key) ?? null,
        setItem: (key, value) => void storage.set(key, value),
        removeItem: key => void storage.delete(key)
      },
      'hub/'
    );
  }

  function make(): PanelController {
    return new PanelController({
      api: api as unknown as PrimeApi,
      sessions: sessions as unknown as ISessions,
      streams: {
        acquire: (id: string) => {
          const stream = new FakeStream();
          stream.refusal = refused;
          streams.set(id, stream);
          return stream as unknown as ISessionStream;
        }
      } as ISessionStreams,
      drafts: drafts(),
      fill: attachment => ({ ...attachment, value: `${attachment.value}!` }),
      claimed: notebook => claimed(notebook),
      activate: jest.fn(),
      isVisible: () => true,
      schedule: callback => scheduled.push(callback),
      messages: {
        noNotebook: 'No notebook.',
        notSent: 'Not sent.',
        notSentHint: 'Send it again.',
        nothingToCompact: 'Nothing.',
        nothingSaved: 'Nothing saved.',
        imageUnreadable: 'No image.',
        recordsLost: 'Lost.'
      }
    });
  }

  function push(id: string, ...frames: ServerFrame[]): void {
    for (const frame of frames) {
      streams.get(id)!.frameReceived.emit(frame);
    }
  }

  beforeEach(async () => {
    api = {
      status: jest.fn(async () => ({
        permission_modes: ['ask', 'edit', 'plan'],
        default_permission_mode: 'ask'
      })),
      send: jest.fn(async () => ({ seq: 2, queued: false })),
      interrupt: jest.fn(async () => undefined),
      decide: jest.fn(async () => undefined),
      sendQueued: jest.fn(async () => ({ sent: true })),
      unqueue: jest.fn(async () => undefined),
      compact: jest.fn(async () => undefined),
      setCredentials: jest.fn(async () => ({ unchecked: null })),
      snapshots: jest.fn(async () => [
        { id: 'newest', names: { x: {} } },
        { id: 'older', names: { y: {} } }
      ]),
      restore: jest.fn(async () => undefined),
      giveUpRestore: jest.fn(async () => undefined)
    };
    refused = null;
    sessions = new FakeSessions();
    streams = new Map();
    storage = new Map();
    scheduled = [];
    claimed = jest.fn(async () => undefined);
    controller = make();
    await controller.setNotebook('a.ipynb');
  });

  it('creates the session with the first message', async () => {
    expect(controller.sessionId).toBeNull();
    controller.message.setText('  hello ');
    await controller.message.send();
    expect(sessions.create).toHaveBeenCalledWith({ notebook: 'a.ipynb' });
    expect(api.send).toHaveBeenCalledWith('made', 'hello', []);
    expect(controller.sessionId).toBe('made');
    expect(controller.snapshot().draft).toBe('');
  });

  describe('while the session is being created', () => {
    let creating: Gate;

    beforeEach(() => {
      creating = new Gate();
      sessions.create.mockImplementationOnce(async ({ notebook }) => {
        await creating.promise;
        await sessions.select(notebook, 'made');
        return { id: 'made' };
      });
    });

    function send(text: string, ...attachments: IAttachment[]): Promise<void> {
      controller.message.setText(text);
      controller.message.attach(...attachments);
      return controller.message.send();
    }

    it('sends further messages after the first, into its session', async () => {
      const first = send('first');
      const second = send('second', { type: 'file', value: 'c' });
      const third = send('third');
      expect(controller.snapshot()).toMatchObject({
        draft: '',
        attachments: [],
        sending: 'first',
        waiting: [{ text: 'second' }, { text: 'third' }]
      });
      creating.open();
      await Promise.all([first, second, third]);
      expect(sessions.create).toHaveBeenCalledTimes(1);
      expect(api.send.mock.calls).toEqual([
        ['made', 'first', []],
        ['made', 'second', [{ type: 'file', value: 'c!' }]],
        ['made', 'third', []]
      ]);
      expect(controller.snapshot()).toMatchObject({
        sending: null,
        waiting: [],
        failure: null
      });
      await send('fourth');
      expect(api.send).toHaveBeenLastCalledWith('made', 'fourth', []);
    });

    it('puts all of them back in order if the first fails', async () => {
      const sent = [send('first'), send('second'), send('third')];
      controller.message.setText('typed since');
      creating.fail(new ApiError(503, 'no_space', 'The disk is full.'));
      await Promise.all(sent);
      expect(api.send).not.toHaveBeenCalled();
      expect(controller.snapshot()).toMatchObject({
        draft: 'first\nsecond\nthird\ntyped since',
        sending: null,
        waiting: [],
        failure: { code: 'no_space' }
      });
    });

    it('sends them to their notebook when another one is shown', async () => {
      sessions.chosen.set('b.ipynb', 's2');
      const sent = [send('first'), send('second')];
      await controller.setNotebook('b.ipynb');
      expect(controller.snapshot().waiting).toEqual([]);
      await send('for b');
      creating.open();
      await Promise.all(sent);
      expect(api.send.mock.calls).toEqual([
        ['s2', 'for b', []],
        ['made', 'first', []],
        ['made', 'second', []]
      ]);
    });

    it('stops after all of them, so that the last waits for the user', async () => {
      const sent = [send('first'), send('second')];
      const stopping = controller.interrupt();
      creating.open();
      await Promise.all([...sent, stopping]);
      expect(api.interrupt).toHaveBeenCalledWith('made');
      const [interrupted] = api.interrupt.mock.invocationCallOrder;
      expect(api.send.mock.invocationCallOrder[1]).toBeLessThan(interrupted);
    });

    it('runs commands about the session once there is one', async () => {
      const first = send('first');
      const compacting = send('/compact keep the plan');
      expect(api.compact).not.toHaveBeenCalled();
      creating.open();
      await Promise.all([first, compacting]);
      expect(api.compact).toHaveBeenCalledWith('made', 'keep the plan');
    });

    it('shows a message once, even if its record arrives before the response', async () => {
      const [first, second] = [send('first'), send('second')];
      const posting = new Gate();
      api.send
        .mockResolvedValueOnce({ seq: 1, queued: false })
        .mockReturnValueOnce(posting.promise);
      creating.open();
      await first;
      const log = new Log();
      push('made', recordFrame(log.add('queued', { text: 'second' })));
      expect(controller.snapshot().waiting).toEqual([]);
      expect(controller.snapshot().conversation?.queue).toHaveLength(1);
      posting.open({ seq: 1, queued: true });
      await second;
    });
  });

  it('puts a queued message back into the composer', async () => {
    await controller.submit('first');
    const queued = { seq: 7, text: 'second', user: null, attachments: [] };
    controller.message.setText('meanwhile');
    await controller.editQueued(queued);
    expect(api.unqueue).toHaveBeenCalledWith('made', 7);
    expect(controller.snapshot().draft).toBe('second\nmeanwhile');

    api.unqueue.mockRejectedValueOnce(
      new ApiError(404, 'not_queued', 'It was sent.')
    );
    await controller.editQueued({ ...queued, text: 'gone' });
    expect(controller.snapshot().draft).toBe('second\nmeanwhile');
    expect(controller.snapshot().failure).toBeNull();
  });

  it('sends or removes what is queued, and keeps the focus', async () => {
    await controller.submit('first');
    controller.takeFocus();
    await controller.sendQueued();
    expect(api.sendQueued).toHaveBeenCalledWith('made');
    expect(controller.takeFocus()).toBe(true);
    await controller.unqueue(7);
    expect(api.unqueue).toHaveBeenCalledWith('made', 7);
    expect(controller.takeFocus()).toBe(true);
  });

  it('sends once the server knows that the notebook is open here', async () => {
    const gate = new Gate();
    claimed.mockReturnValue(gate.promise);
    const sent = controller.submit('hello');
    await new Promise(resolve => process.nextTick(resolve));
    expect(claimed).toHaveBeenCalledWith('a.ipynb');
    expect(controller.sessionId).toBe('made');
    expect(api.send).not.toHaveBeenCalled();
    gate.open();
    await sent;
    expect(api.send).toHaveBeenCalled();
  });

  it('replaces permissions that the administrator does not allow', async () => {
    controller.setNewSession({ permissionMode: 'auto' });
    expect(permissionModeOf(controller.snapshot())).toBe('ask');
    await controller.submit('hello');
    expect(sessions.create).toHaveBeenCalledWith({ notebook: 'a.ipynb' });

    // The administrator has forbidden the mode since the session was made.
    const start = new Log().add('session_start', { permission_mode: 'auto' });
    push('made', recordFrame(start));
    expect(permissionModeOf(controller.snapshot())).toBe('ask');
  });

  it('gives a new session the chosen permissions', async () => {
    await controller.setPermissionMode('plan');
    expect(permissionModeOf(controller.snapshot())).toBe('plan');
    await controller.submit('hello');
    expect(sessions.create).toHaveBeenCalledWith({
      notebook: 'a.ipynb',
      permission_mode: 'plan'
    });
  });

  it('keeps a message that the session of a run refuses, until the run has ended', async () => {
    const refusal = new ApiError(
      409,
      'session_locked',
      'Session made is open in another Jupyter server or `jupyter prime run`.',
      'A run ends by itself: try again then.'
    );
    api.send.mockRejectedValueOnce(refusal);
    controller.message.setText('and now?');
    await controller.message.send();
    expect(controller.snapshot()).toMatchObject({
      draft: 'and now?',
      sending: null,
      failure: {
        code: 'session_locked',
        message: refusal.message,
        hint: refusal.hint
      }
    });
    await controller.message.send();
    expect(api.send).toHaveBeenCalledTimes(2);
    expect(api.send).toHaveBeenLastCalledWith('made', 'and now?', []);
    expect(controller.snapshot()).toMatchObject({ draft: '', failure: null });
  });

  it('knows why the server refuses a session, also from before it was shown', async () => {
    const refusal = {
      type: 'error',
      code: 'session_locked',
      message: 'It is open in another server.'
    } as const;
    refused = refusal;
    await sessions.select('a.ipynb', 'locked');
    const { message } = refusal;
    expect(controller.snapshot().refusal).toMatchObject({ message, hint: '' });
    const stream = streams.get('locked')!;
    stream.refusal = null;
    stream.connectionChanged.emit('connected');
    expect(controller.snapshot().refusal).toBeNull();
    stream.refusal = refusal;
    stream.connectionChanged.emit('disconnected');
    await sessions.select('a.ipynb', null);
    expect(controller.snapshot().refusal).toBeNull();
  });

  it('no longer says that the server does not respond once it does', async () => {
    await sessions.select('a.ipynb', 's1');
    for (const [code, then] of [
      ['server_unreachable', null],
      ['busy', expect.objectContaining({ code: 'busy' })]
    ] as const) {
      api.compact.mockRejectedValueOnce(new ApiError(0, code, 'Not now.'));
      await controller.compact();
      expect(controller.snapshot().failure?.code).toBe(code);
      streams.get('s1')!.connectionChanged.emit('connected');
      expect(controller.snapshot().failure).toEqual(then);
    }
  });

  it('shows a failure with the session that it came from', async () => {
    sessions.chosen.set('a.ipynb', 'one');
    sessions.chosen.set('b.ipynb', 'two');
    await controller.setNotebook('b.ipynb');
    await controller.setNotebook('a.ipynb');
    const compacting = new Gate();
    api.compact.mockReturnValueOnce(compacting.promise);
    const compacted = controller.compact();
    await controller.setNotebook('b.ipynb');
    const failure = { code: 'busy', message: 'The agent is at work.' };
    compacting.fail(new ApiError(409, failure.code, failure.message));
    await compacted;
    expect(controller.snapshot().failure).toBeNull();
    await controller.setNotebook('a.ipynb');
    expect(controller.snapshot().failure).toMatchObject(failure);
    // Like any failure, it is not shown for ever.
    await controller.setNotebook('b.ipynb');
    await controller.setNotebook('a.ipynb');
    expect(controller.snapshot().failure).toBeNull();
  });

  it('shows why a message was not sent with the session that was made for it', async () => {
    const sending = new Gate();
    api.send.mockReturnValueOnce(sending.promise);
    controller.message.setText('hello');
    const sent = controller.message.send();
    await controller.setNotebook('b.ipynb');
    sending.fail(new ApiError(507, 'session_not_written', 'Full.'));
    await sent;
    expect(controller.snapshot().failure).toBeNull();
    await controller.setNotebook('a.ipynb');
    expect(controller.snapshot()).toMatchObject({
      sessionId: 'made',
      draft: 'hello',
      failure: { message: 'Full.' }
    });

    // Without a session, it belongs to the notebook.
    await controller.setNotebook('b.ipynb');
    const creating = new Gate();
    sessions.create.mockReturnValueOnce(creating.promise);
    controller.message.setText('hello');
    const again = controller.message.send();
    await controller.setNotebook('a.ipynb');
    creating.fail(new ApiError(500, 'internal_error', 'Odd.'));
    await again;
    expect(controller.snapshot().failure).toBeNull();
    await controller.setNotebook('b.ipynb');
    expect(controller.snapshot().failure).toMatchObject({ message: 'Odd.' });
  });

  describe('the variables', () => {
    it('are restored from the newest snapshot, or the one that was offered', async () => {
      await controller.variables.restore();
      expect(api.restore).not.toHaveBeenCalled(); // There is no session yet.
      await controller.submit('hello');
      await controller.variables.restore();
      expect(api.restore).toHaveBeenLastCalledWith('made', 'newest');
      await controller.variables.restore('offered');
      expect(api.restore).toHaveBeenLastCalledWith('made', 'offered');
    });

    it('are loaded one by one, which can be cancelled', async () => {
      await controller.submit('hello');
      await controller.variables.load('df', 's1');
      expect(api.restore).toHaveBeenLastCalledWith('made', 's1', ['df']);
      await controller.variables.giveUp('s1');
      expect(api.giveUpRestore).toHaveBeenLastCalledWith('made', 's1');
    });

    it.each([
      ['older', { x: {} }],
      ['newest', {}]
    ])(
      'are restored from the %s snapshot, the newest with variables',
      async (expected, names) => {
        await controller.submit('hello');
        api.snapshots.mockResolvedValueOnce([
          { id: 'newest', names: {} },
          { id: 'older', names }
        ]);
        await controller.variables.restore();
        expect(api.restore).toHaveBeenLastCalledWith('made', expected);
      }
    );

    it('are reported missing if nothing was saved', async () => {
      await controller.submit('hello');
      api.snapshots.mockResolvedValueOnce([]);
      await controller.variables.restore();
      expect(controller.snapshot().failure?.message).toBe('Nothing saved.');
      expect(api.restore).not.toHaveBeenCalled();
    });

    it('are no longer saved if the user wants it so', async () => {
      await controller.submit('hello');
      await controller.variables.setSaved(false);
      expect(sessions.patch).toHaveBeenCalledWith('made', { snapshots: false });
      expect(await controller.variables.savedBytes()).toBe(12);
    });

    it('are restored automatically as the user has set it', async () => {
      controller.variables.setRestoreMode('never');
      await controller.submit('hello');
      expect(sessions.create).toHaveBeenCalledWith({
        notebook: 'a.ipynb',
        restore: 'never'
      });
      await Promise.resolve();
      // The current session follows the setting, unless it has the same mode already.
      sessions.patch.mockClear();
      await controller.variables.applyRestoreMode('always');
      expect(sessions.patch).toHaveBeenCalledWith('made', {
        restore: 'always'
      });
      sessions.patch.mockClear();
      await controller.variables.applyRestoreMode('auto');
      expect(sessions.patch).not.toHaveBeenCalled();
    });
  });

  it('waits for the session of a notebook that was just opened', async () => {
    const gate = new Gate();
    jest.spyOn(sessions, 'resolve').mockReturnValue(gate.promise);
    const opened = controller.setNotebook('b.ipynb');
    const sent = controller.submit('hello');
    gate.open('known');
    await Promise.all([opened, sent]);
    expect(sessions.create).not.toHaveBeenCalled();
    expect(api.send).toHaveBeenCalledWith('known', 'hello', []);
  });

  it('looks the session up again after a failure', async () => {
    jest
      .spyOn(sessions, 'resolve')
      .mockRejectedValueOnce(new ApiError(0, 'server_unreachable', 'Down.'))
      .mockResolvedValueOnce('found');
    await controller.setNotebook('b.ipynb');
    expect(controller.snapshot()).toMatchObject({
      sessionId: undefined,
      serverFailure: { code: 'server_unreachable' }
    });
    await controller.reconnect();
    expect(controller.sessionId).toBe('found');
  });

  it('shows why a message was refused', async () => {
    await sessions.select('a.ipynb', 's1');
    const gate = new Gate();
    api.send.mockReturnValueOnce(gate.promise);
    controller.message.setText('a long message');
    const sending = controller.message.send();
    expect(controller.snapshot()).toMatchObject({
      draft: '',
      sending: 'a long message'
    });
    gate.fail(new ApiError(413, 'message_too_large', 'Too large.', 'A file.'));
    await sending;
    expect(controller.snapshot()).toMatchObject({
      draft: 'a long message',
      sending: null,
      failure: { code: 'message_too_large', hint: 'A file.' }
    });
  });

  it('says that a message was not sent, and not again that the server is away', async () => {
    await sessions.select('a.ipynb', 's1');
    api.send.mockRejectedValueOnce(
      new ApiError(0, 'server_unreachable', 'The server does not respond.')
    );
    controller.message.setText('hello');
    await controller.message.send();
    expect(controller.snapshot()).toMatchObject({
      draft: 'hello',
      failure: {
        code: 'server_unreachable',
        message: 'Not sent.',
        hint: 'Send it again.'
      }
    });
  });

  it('keeps a refused message for its notebook when another one is shown', async () => {
    await sessions.select('a.ipynb', 's1');
    const gate = new Gate();
    api.send.mockReturnValueOnce(gate.promise);
    controller.message.setText('for a');
    const sending = controller.message.send();
    await controller.setNotebook('b.ipynb');
    gate.fail(new ApiError(0, 'server_unreachable', 'Down.'));
    await sending;
    expect(controller.snapshot().draft).toBe('');
    await controller.setNotebook('a.ipynb');
    expect(controller.snapshot().draft).toBe('for a');
  });

  it('puts a refused message before what was typed for its notebook', async () => {
    await sessions.select('a.ipynb', 's1');
    const gate = new Gate();
    api.send.mockReturnValueOnce(gate.promise);
    controller.message.setText('for a');
    const sending = controller.message.send();
    controller.message.setText('typed after it');
    await controller.setNotebook('b.ipynb');
    gate.fail(new ApiError(0, 'server_unreachable', 'Down.'));
    await sending;
    await controller.setNotebook('a.ipynb');
    expect(controller.snapshot().draft).toBe('for a\ntyped after it');
  });

  it('keeps a message taken from the queue when another notebook is shown', async () => {
    await sessions.select('a.ipynb', 's1');
    const gate = new Gate();
    api.unqueue.mockReturnValueOnce(gate.promise);
    const editing = controller.editQueued({
      seq: 7,
      text: 'queued in a',
      user: null,
      attachments: []
    });
    await controller.setNotebook('b.ipynb');
    gate.open();
    await editing;
    expect(controller.snapshot().draft).toBe('');
    await controller.setNotebook('a.ipynb');
    expect(controller.snapshot().draft).toBe('queued in a');
  });

  it('shows a message as being sent until it is, not until another one is', async () => {
    sessions.chosen.set('b.ipynb', 's2');
    await sessions.select('a.ipynb', 's1');
    const first = new Gate();
    const second = new Gate();
    api.send
      .mockReturnValueOnce(first.promise)
      .mockReturnValueOnce(second.promise);
    const sendingFirst = controller.submit('to a');
    await controller.setNotebook('b.ipynb');
    const sendingSecond = controller.submit('to b');
    first.open({ seq: 2, queued: false });
    await sendingFirst;
    expect(controller.snapshot().sending).toBe('to b');
    second.open({ seq: 2, queued: false });
    await sendingSecond;
    expect(controller.snapshot().sending).toBeNull();
  });

  it('starts over when the server has lost records', async () => {
    await sessions.select('a.ipynb', 's1');
    const log = new Log();
    push('s1', recordFrame(log.add('user_message', { text: 'kept' })));
    push('s1', recordFrame(log.add('user_message', { text: 'lost' })));
    push('s1', { type: 'reset' });
    expect(controller.conversation?.items).toEqual([]);
    expect(controller.snapshot().failure?.message).toBe('Lost.');
    push('s1', recordFrame(new Log().add('user_message', { text: 'kept' })));
    expect(controller.conversation?.items).toMatchObject([{ text: 'kept' }]);
  });

  it('leaves no draft under the former path of a notebook', async () => {
    controller.message.setText('half a thought');
    controller.renameNotebook('b.ipynb');
    await controller.setNotebook('a.ipynb');
    expect(controller.snapshot().draft).toBe('');
    await controller.setNotebook('b.ipynb');
    expect(controller.snapshot().draft).toBe('half a thought');
  });

  it('keeps drafts by notebook after a reload', async () => {
    controller.message.setText('half a thought');
    await controller.setNotebook('b.ipynb');
    expect(controller.snapshot().draft).toBe('');
    controller = make();
    await controller.setNotebook('a.ipynb');
    expect(controller.snapshot().draft).toBe('half a thought');
  });

  describe('attachments', () => {
    const df: IAttachment = { type: 'variable', value: 'df', mention: '@df' };
    const file: IAttachment = { type: 'file', value: 'a.csv' };

    it('are sent with their current content, if they are still mentioned', async () => {
      controller.compose('plot @d and @n', [df, file]);
      controller.message.attach({
        type: 'variable',
        value: 'n',
        mention: '@n'
      });
      await controller.message.send();
      expect(api.send).toHaveBeenCalledWith('made', 'plot @d and @n', [
        { type: 'file', value: 'a.csv!' },
        { type: 'variable', value: 'n!', mention: '@n' }
      ]);
      expect(controller.snapshot().attachments).toEqual([]);
    });

    it('follow a renamed notebook', () => {
      const cell = { type: 'notebook', value: 'a.ipynb', cells: [{ id: 'c' }] };
      controller.message.attach(cell as IAttachment);
      controller.renameNotebook('b.ipynb');
      expect(controller.snapshot().attachments[0].value).toBe('b.ipynb');
    });
  });

  it('stops a message that is still being sent', async () => {
    await sessions.select('a.ipynb', 's1');
    const gate = new Gate();
    api.send.mockReturnValueOnce(gate.promise);
    const sending = controller.submit('run for ever');
    const stopping = controller.interrupt();
    expect(controller.snapshot().stopping).toBe(true);
    expect(api.interrupt).not.toHaveBeenCalled();
    gate.open({ seq: 2, queued: false });
    await Promise.all([sending, stopping]);
    expect(api.interrupt).toHaveBeenCalledWith('s1');
  });

  it('stops the agent that was shown, not that of another notebook', async () => {
    sessions.chosen.set('b.ipynb', 's2');
    await sessions.select('a.ipynb', 's1');
    const gate = new Gate();
    api.send.mockReturnValueOnce(gate.promise);
    const sending = controller.submit('run for ever');
    const stopping = controller.interrupt();
    await controller.setNotebook('b.ipynb');
    gate.open({ seq: 2, queued: false });
    await Promise.all([sending, stopping]);
    expect(api.interrupt.mock.calls).toEqual([['s1']]);
  });

  it('shows a message once, even if its record arrives before the response', async () => {
    await sessions.select('a.ipynb', 's1');
    const gate = new Gate();
    api.send.mockReturnValueOnce(gate.promise);
    const sending = controller.submit('hello');
    expect(controller.snapshot().sending).toBe('hello');
    push('s1', recordFrame(new Log().add('user_message', { text: 'hello' })));
    expect(controller.snapshot().sending).toBeNull();
    gate.open({ seq: 1, queued: false });
    await sending;
    expect(controller.conversation?.items).toHaveLength(1);
  });

  it('shows that it is stopping until the turn has ended', async () => {
    await sessions.select('a.ipynb', 's1');
    push('s1', { type: 'state', state: state({ running: true }) });
    await controller.interrupt();
    expect(controller.snapshot().stopping).toBe(true);
    push('s1', { type: 'state', state: state({ running: false }) });
    expect(controller.snapshot().stopping).toBe(false);
  });

  it('does not stop an idle agent', async () => {
    await sessions.select('a.ipynb', 's1');
    await controller.interrupt();
    expect(api.interrupt).not.toHaveBeenCalled();
  });

  it('decides once, and shows that another tab has decided first', async () => {
    await sessions.select('a.ipynb', 's1');
    const gate = new Gate();
    api.decide.mockReturnValueOnce(gate.promise);
    const first = controller.decide('c1', 'allow', 'session');
    void controller.decide('c1', 'deny');
    expect(controller.snapshot().deciding.has('c1')).toBe(true);
    const message = 'Already answered in another tab: denied.';
    gate.fail(new ApiError(409, 'approval_decided', message));
    await first;
    expect(api.decide).toHaveBeenCalledTimes(1);
    expect(api.decide).toHaveBeenCalledWith('s1', 'c1', 'allow', 'session');
    expect(controller.snapshot()).toMatchObject({ failure: { message } });
    expect(controller.snapshot().deciding.size).toBe(0);
  });

  it('does not send a decision twice', async () => {
    await sessions.select('a.ipynb', 's1');
    await controller.decide('c1', 'allow');
    await controller.decide('c1', 'deny');
    expect(api.decide).toHaveBeenCalledTimes(1);
    expect(controller.snapshot().failure).toBeNull();
  });

  it('executes /new and /compact itself', async () => {
    await sessions.select('a.ipynb', 's1');
    await controller.submit('/compact keep the plots');
    expect(api.compact).toHaveBeenCalledWith('s1', 'keep the plots');
    await controller.submit('/new');
    expect(controller.sessionId).toBeNull();
    await controller.submit('/compact');
    expect(controller.snapshot().failure?.code).toBe('nothing_to_compact');
    expect(api.send).not.toHaveBeenCalled();
  });

  it('follows the notebook and releases the former stream', async () => {
    sessions.chosen.set('b.ipynb', 's2');
    await sessions.select('a.ipynb', 's1');
    const log = new Log();
    push('s1', recordFrame(log.add('user_message', { text: 'in a' })));
    await controller.setNotebook('b.ipynb');
    expect(streams.get('s1')!.disposed).toBe(true);
    expect(controller.sessionId).toBe('s2');
    expect(controller.conversation?.items).toEqual([]);
  });

  it('ignores the result of an outdated look-up', async () => {
    const gate = new Gate();
    const real = sessions.resolve.bind(sessions);
    jest
      .spyOn(sessions, 'resolve')
      .mockImplementation(async notebook =>
        notebook === 'slow.ipynb' ? gate.promise : real(notebook)
      );
    const slow = controller.setNotebook('slow.ipynb');
    await controller.setNotebook('a.ipynb');
    gate.open('session of slow');
    await slow;
    expect(controller.notebook).toBe('a.ipynb');
    expect(controller.sessionId).toBeNull();
  });

  it('repaints once for many frames', async () => {
    await sessions.select('a.ipynb', 's1');
    scheduled.forEach(callback => callback());
    scheduled = [];
    let repaints = 0;
    controller.changed.connect(() => {
      repaints += 1;
    });
    const delta = { type: 'delta', turn: 't', message: 'm', index: 0 } as const;
    for (let i = 0; i < 100; i++) {
      push('s1', { ...delta, block: 'text', text: 'word ' });
    }
    expect(scheduled).toHaveLength(1);
    scheduled[0]();
    expect(repaints).toBe(1);
  });

  it('emits only live frames', async () => {
    await sessions.select('a.ipynb', 's1');
    const live: ServerFrame[] = [];
    controller.liveFrame.connect((_, frame) => {
      live.push(frame);
    });
    const log = new Log();
    push('s1', recordFrame(log.add('error', { code: 'x', message: 'old' })));
    push('s1', { type: 'ready', last_seq: 1, state: state() });
    const news = recordFrame(log.add('error', { code: 'x', message: 'new' }));
    push('s1', news);
    expect(live).toEqual([news]);
  });

  it.each([
    ['overloaded', 'hi', 'hi'],
    // The message would be refused as long as the code runs.
    ['code_still_runs', 'hi', undefined],
    // Only the text can be sent again.
    ['overloaded', '', undefined]
  ])('offers to try again after %s of “%s”', async (code, sent, text) => {
    await sessions.select('a.ipynb', 's1');
    const log = new Log();
    push(
      's1',
      recordFrame(log.add('user_message', { turn: 't1', text: sent })),
      recordFrame(log.add('error', { turn: 't1', code, message: 'Busy.' })),
      recordFrame(log.add('turn_end', { turn: 't1', status: 'error' }))
    );
    const error = controller.conversation!.items[1];
    if (error.kind !== 'error') {
      throw new Error(error.kind);
    }
    // Only for the last item.
    expect(messageToRetry(controller.snapshot(), error)?.text).toBe(text);
    push(
      's1',
      recordFrame(log.add('user_message', { turn: 't2', text: 'other' }))
    );
    expect(messageToRetry(controller.snapshot(), error)).toBeNull();
  });

  it('passes a key to the server and does not keep it', async () => {
    await controller.modelConnection.connect({
      provider: 'anthropic',
      api_key: 'sk-1'
    });
    expect(api.setCredentials).toHaveBeenCalledTimes(1);
    expect(api.status).toHaveBeenCalledTimes(2);
    expect(JSON.stringify(controller.snapshot())).not.toContain('sk-1');
    expect([...storage.values()].join()).not.toContain('sk-1');
  });
});
