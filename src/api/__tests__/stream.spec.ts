import { ServerConnection } from '@jupyterlab/services';

import { ConnectionStatus, ISessionStream } from '../../tokens';
import { ISessionState, ServerFrame } from '../frames';
import { ApiError, PrimeApi } from '../rest';
import { SessionStreams } from '../stream';

const STATE: ISessionState = {
  running: false,
  phase: 'idle',
  turn: null,
  context_tokens: null,
  threshold: 1000,
  kernel: { id: null, state: 'none' }
};

class FakeSocket {
  static all: FakeSocket[] = [];

  static get last(): FakeSocket {
    return FakeSocket.all[FakeSocket.all.length - 1];
  }

  onopen: (() => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  sent: string[] = [];
  closed = false;

  constructor(readonly url: string) {
    FakeSocket.all.push(this);
  }

  send(data: string): void {
    this.sent.push(data);
  }

  close(): void {
    this.closed = true;
  }

  /** Deliver a frame of the server. */
  push(frame: ServerFrame): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  record(seq: number, id = `id${seq}`): void {
    this.push({
      type: 'record',
      record: { seq, id, ts: '', kind: 'title', title: `${seq}` }
    });
  }
}

function api(token = ''): PrimeApi {
  return new PrimeApi(
    ServerConnection.makeSettings({
      baseUrl: 'http://localhost/base/',
      wsUrl: 'ws://localhost/base/',
      token,
      appendToken: token !== '',
      WebSocket: FakeSocket as any
    })
  );
}

/** Sequence numbers and types of the frames in the order that a consumer receives them. */
function watch(stream: ISessionStream): (number | string)[] {
  const seen: (number | string)[] = [];
  stream.frameReceived.connect((_, frame) => {
    seen.push(frame.type === 'record' ? frame.record.seq : frame.type);
  });
  return seen;
}

function ready(socket: FakeSocket, last_seq = 0): void {
  socket.push({ type: 'ready', last_seq, state: STATE });
}

describe('SessionStreams', () => {
  let streams: SessionStreams;
  let primeApi: PrimeApi;

  beforeEach(() => {
    jest.useFakeTimers();
    FakeSocket.all = [];
    primeApi = api();
    jest.spyOn(primeApi, 'session').mockResolvedValue({} as any);
    streams = new SessionStreams(primeApi);
  });

  afterEach(() => {
    jest.useRealTimers();
  });

  it('connects to the session with the token, below the base URL', () => {
    new SessionStreams(api('se cret')).acquire('a/b').dispose();
    expect(FakeSocket.last.url).toBe(
      'ws://localhost/base/prime/api/sessions/a%2Fb/stream?after=0&token=se%20cret'
    );
  });

  it('shares one socket and closes it with the last consumer', () => {
    const first = streams.acquire('s');
    const second = streams.acquire('s');
    expect(FakeSocket.all).toHaveLength(1);
    first.dispose();
    first.dispose();
    expect(FakeSocket.last.closed).toBe(false);
    second.dispose();
    expect(FakeSocket.last.closed).toBe(true);
    jest.runAllTimers();
    expect(FakeSocket.all).toHaveLength(1);
  });

  it('resumes after the last record, without gap or duplicate', async () => {
    const stream = streams.acquire('s');
    const seen = watch(stream);
    FakeSocket.last.onopen?.();
    FakeSocket.last.record(1);
    FakeSocket.last.record(2);
    ready(FakeSocket.last, 2);
    await stream.ready;

    FakeSocket.last.onclose?.({ code: 1006 });
    await jest.advanceTimersByTimeAsync(1000);
    expect(FakeSocket.all).toHaveLength(2);
    expect(FakeSocket.last.url).toContain('after=1');
    FakeSocket.last.onopen?.();
    FakeSocket.last.record(2);
    FakeSocket.last.record(3);
    ready(FakeSocket.last, 3);
    expect(seen).toEqual([1, 2, 'ready', 3, 'ready']);
  });

  it.each<[string, (socket: FakeSocket) => void]>([
    ['ends before', socket => ready(socket, 1)],
    ['went on differently after', socket => socket.record(2, 'another')]
  ])('starts over if the log %s what it has', async (_, answer) => {
    const stream = streams.acquire('s');
    FakeSocket.last.onopen?.();
    FakeSocket.last.record(1);
    FakeSocket.last.record(2);
    ready(FakeSocket.last, 2);
    const seen = watch(stream);

    FakeSocket.last.onclose?.({ code: 1006 });
    await jest.advanceTimersByTimeAsync(1000);
    FakeSocket.last.onopen?.();
    answer(FakeSocket.last);
    expect(FakeSocket.all).toHaveLength(3);
    expect(FakeSocket.last.url).toContain('after=0');
    FakeSocket.last.record(1);
    FakeSocket.last.record(2, 'another');
    ready(FakeSocket.last, 2);
    expect(seen).toEqual(['reset', 1, 2, 'ready']);
    expect(stream.replay()).toMatchObject([
      { record: { id: 'id1' } },
      { record: { id: 'another' } },
      { type: 'ready' }
    ]);
  });

  it('reconnects when a record is missing', async () => {
    const stream = streams.acquire('s');
    const seen = watch(stream);
    FakeSocket.last.onopen?.();
    FakeSocket.last.record(1);
    FakeSocket.last.record(3);
    expect(seen).toEqual([1]);
    expect(FakeSocket.last.closed).toBe(true);
    await jest.advanceTimersByTimeAsync(1000);
    expect(FakeSocket.last.url).toContain('after=0');
    FakeSocket.last.record(1);
    FakeSocket.last.record(2);
    FakeSocket.last.record(3);
    expect(seen).toEqual([1, 2, 3]);
  });

  it('continues if the server does not have the missing record either', async () => {
    const stream = streams.acquire('s');
    const seen = watch(stream);
    FakeSocket.last.record(1);
    FakeSocket.last.record(3);
    await jest.advanceTimersByTimeAsync(1000);
    FakeSocket.last.record(3);
    FakeSocket.last.record(4);
    expect(seen).toEqual([1, 3, 4]);
    expect(FakeSocket.last.closed).toBe(false);
  });

  it('discards the deltas once the new connection sends them again', async () => {
    const stream = streams.acquire('s');
    const frames: ServerFrame[] = [];
    stream.frameReceived.connect((_, frame) => {
      frames.push(frame);
    });
    FakeSocket.last.onopen?.();
    FakeSocket.last.push({
      type: 'delta',
      turn: 't',
      message: 'm',
      index: 0,
      block: 'text',
      text: 'half'
    });
    FakeSocket.last.onclose?.({ code: 1006 });
    await jest.advanceTimersByTimeAsync(1000);
    FakeSocket.last.onopen?.();
    expect(frames.map(({ type }) => type)).toEqual(['delta']);
    ready(FakeSocket.last, 0);
    expect(frames[1]).toEqual({
      type: 'delta_reset',
      turn: 't',
      message: 'm'
    });
    expect(frames[2].type).toBe('ready');
  });

  it('gives a second consumer the records and the deltas so far', () => {
    streams.acquire('s');
    FakeSocket.last.onopen?.();
    FakeSocket.last.record(1);
    const delta = { type: 'delta', turn: 't', message: 'm', index: 0 } as const;
    FakeSocket.last.push({ ...delta, block: 'start', start: { type: 'text' } });
    FakeSocket.last.push({ ...delta, block: 'text', text: 'a' });
    FakeSocket.last.push({ ...delta, block: 'text', text: 'b' });
    ready(FakeSocket.last, 1);
    FakeSocket.last.push({ type: 'state', state: { ...STATE, running: true } });
    expect(streams.acquire('s').replay()).toMatchObject([
      { type: 'record', record: { seq: 1 } },
      { type: 'delta', block: 'start' },
      { type: 'delta', block: 'text', text: 'ab' },
      // Without it the newcomer would wait for records that are all there.
      { type: 'ready', last_seq: 1, state: { running: true } }
    ]);
  });

  it('completes outputs of which the server sends only the changes', () => {
    const first = streams.acquire('s');
    const socket = FakeSocket.last;
    socket.onopen?.();
    ready(socket);
    const shown: unknown[] = [];
    first.frameReceived.connect((_, frame) => {
      if (frame.type === 'progress') {
        shown.push(frame.outputs?.map(output => output.text ?? 'figure'));
      }
    });
    const figure = { output_type: 'display_data', data: {} };
    const stdout = (text: string) => ({ output_type: 'stream', text });
    const push = (more: object): void =>
      socket.push({ type: 'progress', what: 'tool', call_id: 'c', ...more });
    push({ started: '2026-01-01T00:00:00Z' });
    push({ outputs: [figure, stdout('😀 1%')] });
    push({ from: 1, tail: { kept: 3, text: '2%' }, outputs: [] });
    push({ from: 1, outputs: [figure, stdout('done')] });
    expect(shown).toEqual([
      undefined,
      ['figure', '😀 1%'],
      ['figure', '😀 2%'],
      ['figure', 'figure', 'done']
    ]);
    // A second consumer gets all outputs, and the start time.
    const [progress] = streams
      .acquire('s')
      .replay()
      .filter(frame => frame.type === 'progress');
    expect(progress).toEqual({
      type: 'progress',
      what: 'tool',
      call_id: 'c',
      started: '2026-01-01T00:00:00Z',
      outputs: [figure, figure, stdout('done')]
    });
  });

  it.each([
    { from: 0, tail: { kept: 1, text: 'b' }, outputs: [] },
    { from: 1, outputs: [] }
  ])('connects again if outputs that %j changes are missing', async news => {
    const stream = streams.acquire('s');
    const seen = watch(stream);
    FakeSocket.last.onopen?.();
    ready(FakeSocket.last);
    const progress = { type: 'progress', what: 'tool', call_id: 'c' } as const;
    FakeSocket.last.push({ ...progress, ...news });
    expect(FakeSocket.last.closed).toBe(true);
    await jest.advanceTimersByTimeAsync(1000);
    expect(FakeSocket.all).toHaveLength(2);
    FakeSocket.last.onopen?.();
    ready(FakeSocket.last);
    const outputs = [{ output_type: 'stream', text: 'ab' }];
    FakeSocket.last.push({ ...progress, outputs });
    expect(seen).toEqual(['ready', 'ready', 'progress']);
    expect(stream.replay()).toContainEqual({ ...progress, outputs });
  });

  it('waits longer after each failure, and starts over after success', async () => {
    jest.spyOn(Math, 'random').mockReturnValue(1);
    streams.acquire('s');
    const waits: number[] = [];
    for (let i = 0; i < 8; i++) {
      const before = FakeSocket.all.length;
      FakeSocket.last.onclose?.({ code: 1006 });
      let waited = 0;
      while (FakeSocket.all.length === before) {
        await jest.advanceTimersByTimeAsync(100);
        waited += 100;
      }
      waits.push(waited);
    }
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 10000, 10000, 10000]);
    FakeSocket.last.onopen?.();
    ready(FakeSocket.last);
    FakeSocket.last.onclose?.({ code: 1006 });
    await jest.advanceTimersByTimeAsync(500);
    expect(FakeSocket.all).toHaveLength(10);
    jest.spyOn(Math, 'random').mockRestore();
  });

  it('reconnects at once on request, or when the machine is online again', async () => {
    const stream = streams.acquire('s');
    FakeSocket.last.onopen?.();
    FakeSocket.last.onclose?.({ code: 1006 });
    await jest.advanceTimersByTimeAsync(0);
    expect(stream.status).toBe('disconnected');
    stream.reconnect();
    expect(FakeSocket.all).toHaveLength(2);
    FakeSocket.last.onopen?.();
    FakeSocket.last.onclose?.({ code: 1006 });
    window.dispatchEvent(new Event('online'));
    expect(FakeSocket.all).toHaveLength(3);
    await jest.advanceTimersByTimeAsync(10_000);
    expect(FakeSocket.all).toHaveLength(3);
  });

  it('gives up on a session that is gone', async () => {
    jest
      .spyOn(primeApi, 'session')
      .mockRejectedValue(new ApiError(404, 'session_not_found', 'No.'));
    const stream = streams.acquire('s');
    const seen: ConnectionStatus[] = [];
    stream.connectionChanged.connect((_, status) => {
      seen.push(status);
    });
    FakeSocket.last.onclose?.({ code: 1006 });
    await expect(stream.ready).rejects.toThrow('No.');
    expect(seen).toEqual(['disconnected', 'gone']);
    await jest.advanceTimersByTimeAsync(60_000);
    expect(FakeSocket.all).toHaveLength(1);
  });

  it('gives up on a session that is deleted while connected', async () => {
    jest
      .spyOn(primeApi, 'session')
      .mockRejectedValue(new ApiError(404, 'session_not_found', 'No.'));
    const stream = streams.acquire('s');
    FakeSocket.last.onopen?.();
    ready(FakeSocket.last);
    FakeSocket.last.onclose?.({ code: 4410 });
    await jest.advanceTimersByTimeAsync(60_000);
    expect(stream.status).toBe('gone');
    expect(FakeSocket.all).toHaveLength(1);
  });

  it('keeps trying while the server is down', async () => {
    jest
      .spyOn(primeApi, 'session')
      .mockRejectedValue(new ApiError(0, 'server_unreachable', 'Down.'));
    streams.acquire('s');
    FakeSocket.last.onclose?.({ code: 1006 });
    await jest.advanceTimersByTimeAsync(1000);
    expect(FakeSocket.all).toHaveLength(2);
  });

  it('loads no records until a consumer needs them', async () => {
    const light = streams.acquire('s', { records: false });
    const seen = watch(light);
    FakeSocket.last.onopen?.();
    expect(FakeSocket.last.url).toContain(`after=${Number.MAX_SAFE_INTEGER}`);
    ready(FakeSocket.last, 100);
    await light.ready;
    // Whatever comes is passed on, and nothing of it is kept.
    FakeSocket.last.record(101);
    FakeSocket.last.record(103);
    expect(seen).toEqual(['ready', 101, 103]);
    expect(light.replay()).toEqual([]);
    FakeSocket.last.onclose?.({ code: 1006 });
    await jest.advanceTimersByTimeAsync(1000);
    expect(FakeSocket.last.url).toContain(`after=${Number.MAX_SAFE_INTEGER}`);
    FakeSocket.last.onopen?.();

    const statuses: ConnectionStatus[] = [];
    light.connectionChanged.connect((_, status) => {
      statuses.push(status);
    });
    const full = streams.acquire('s');
    expect(FakeSocket.all).toHaveLength(3);
    expect(FakeSocket.all[1].closed).toBe(true);
    expect(FakeSocket.last.url).toContain('after=0');
    FakeSocket.last.onopen?.();
    // Both ends of the lease learn of the new connection, over which it is claimed again.
    expect(statuses).toEqual(['connecting', 'connected']);
    FakeSocket.last.record(1);
    ready(FakeSocket.last, 1);
    await full.ready;
    expect(full.replay()).toMatchObject([
      { record: { seq: 1 } },
      { type: 'ready' }
    ]);
    streams.acquire('s', { records: false });
    expect(FakeSocket.all).toHaveLength(3);
  });

  it('keeps the records of the sessions that were shown last', () => {
    for (const id of ['a', 'b', 'c', 'd']) {
      streams.acquire(id, { records: false });
      FakeSocket.last.onopen?.();
    }
    const show = (id: string): number => {
      const stream = streams.acquire(id);
      if (stream.replay().length === 0) {
        FakeSocket.last.onopen?.();
        FakeSocket.last.record(1);
        ready(FakeSocket.last, 1);
      }
      stream.dispose();
      return FakeSocket.all.length;
    };
    const sockets = ['a', 'b', 'c', 'a', 'b', 'c', 'd', 'b', 'a'].map(show);
    // `d` displaces `a`, which is loaded again at the end.
    expect(sockets).toEqual([5, 6, 7, 7, 7, 7, 8, 8, 9]);
  });

  it('says why the server refuses the session, until it does not', async () => {
    const stream = streams.acquire('s');
    const seen = watch(stream);
    const statuses: string[] = [];
    stream.connectionChanged.connect((_, status) => {
      statuses.push(`${status}: ${stream.refusal?.code}`);
    });
    const refuse = (code: string): void => {
      FakeSocket.last.onopen?.();
      FakeSocket.last.push({ type: 'error', code, message: 'Run.' });
      FakeSocket.last.onclose?.({ code: 4409 });
    };
    refuse('session_locked');
    expect(stream.refusal).toMatchObject({ message: 'Run.' });
    expect(statuses.splice(0)).toEqual([
      'connected: undefined',
      'disconnected: session_locked'
    ]);
    // The reason stays while the stream tries again, at most some seconds later.
    for (let i = 0; i < 9; i++) {
      const before = FakeSocket.all.length;
      await jest.advanceTimersByTimeAsync(5000);
      expect(FakeSocket.all.length).toBeGreaterThan(before);
      refuse('session_locked');
    }
    expect(statuses).toEqual([]);
    expect(seen).toEqual([]);
    // A server that is down does not say so any more.
    await jest.advanceTimersByTimeAsync(5000);
    FakeSocket.last.onclose?.({ code: 1006 });
    expect(statuses.splice(0)).toEqual(['disconnected: undefined']);
    await jest.advanceTimersByTimeAsync(30_000);
    refuse('session_locked');
    statuses.splice(0);

    await jest.advanceTimersByTimeAsync(5000);
    FakeSocket.last.onopen?.();
    expect(stream.connected).toBe(false);
    ready(FakeSocket.last);
    expect(stream.connected).toBe(true);
    expect(statuses).toEqual(['connected: undefined']);
    expect(seen).toEqual(['ready']);
  });

  it('sends only while connected', () => {
    const stream = streams.acquire('s');
    const frame = { type: 'lease', action: 'claim', notebook: 'a' } as const;
    expect(stream.send(frame)).toBe(false);
    FakeSocket.last.onopen?.();
    expect(stream.send(frame)).toBe(true);
    expect(FakeSocket.last.sent.map(text => JSON.parse(text))).toEqual([frame]);
    stream.dispose();
    expect(stream.send(frame)).toBe(false);
  });
});
