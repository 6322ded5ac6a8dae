import { Signal } from '@lumino/signaling';

import { ClientFrame, ServerFrame } from '../../api/frames';
import {
  ConnectionStatus,
  ISessions,
  ISessionStream,
  ISessionStreams
} from '../../tokens';
import { NotebookLease } from '../notebookLease';
import { IStanding, OpenNotebook } from '../openNotebook';

class Stream {
  constructor(readonly sessionId: string) {}

  readonly frameReceived = new Signal<this, ServerFrame>(this);
  readonly connectionChanged = new Signal<this, ConnectionStatus>(this);
  sent: ClientFrame[] = [];
  connected = false;
  status: ConnectionStatus = 'connecting';
  isDisposed = false;

  send(frame: ClientFrame): boolean {
    if (this.connected) {
      this.sent.push(frame);
    }
    return this.connected;
  }

  connect(): void {
    this.connected = true;
    this.status = 'connected';
    this.connectionChanged.emit('connected');
  }

  drop(status: ConnectionStatus = 'disconnected'): void {
    this.connected = false;
    this.status = status;
    this.connectionChanged.emit(status);
  }

  lease(held: boolean, notebook = 'work.ipynb'): void {
    this.frameReceived.emit({ type: 'lease', notebook, held });
  }

  /** `claim work.ipynb` and the like, in order. */
  get said(): string[] {
    return this.sent.map(frame =>
      frame.type === 'lease'
        ? `${frame.action} ${frame.notebook}`
        : `ack ${frame.op_id}`
    );
  }

  dispose(): void {
    this.isDisposed = true;
  }
}

class Sessions {
  readonly changed = new Signal<this, ISessions.IChange>(this);
  chosen: string | null = 's1';
  listed: string[] = [];
  renamed: string[] = [];

  resolve = async (): Promise<string | null> => this.chosen;
  list = async (): Promise<any[]> => this.listed.map(id => ({ id }));
  forget = async (id: string): Promise<void> => {
    if (this.chosen === id) {
      [this.chosen = null] = this.listed;
    }
  };
  rename = async (from: string, to: string): Promise<void> => {
    this.renamed.push(`${from} → ${to}`);
  };
}

class Notebook {
  context = {
    localPath: 'work.ipynb',
    pathChanged: new Signal<any, string>(this)
  };
  applied: string[] = [];
  refreshed = 0;

  apply = async (opId: string): Promise<any> => {
    this.applied.push(opId);
    return { type: 'ack', op_id: opId, ok: true };
  };
  version = 'v1';
  standing: IStanding | undefined;
  behind: string | null = null;
  toldBehind = 0;
  readonly versionChanged = new Signal<this, 'saved' | 'loaded'>(this);

  tellBehind(): void {
    this.toldBehind++;
  }

  refresh = async (standing?: IStanding): Promise<void> => {
    this.refreshed++;
    this.standing = standing;
  };
}

/** Flush pending promises. */
const settle = () => new Promise(resolve => process.nextTick(resolve));

describe('NotebookLease', () => {
  let sessions: Sessions;
  let notebook: Notebook;
  let streams: Stream[];
  let lease: NotebookLease;

  async function start(): Promise<void> {
    lease = new NotebookLease(
      notebook as unknown as OpenNotebook,
      sessions as unknown as ISessions,
      {
        acquire: (id, options) => {
          expect(options).toEqual({ records: false });
          const stream = new Stream(id);
          streams.push(stream);
          return stream as unknown as ISessionStream;
        }
      } as ISessionStreams
    );
    await settle();
  }

  const op = (opId: string, path = 'work.ipynb') =>
    ({
      type: 'op',
      op_id: opId,
      notebook: path,
      op: { op: 'save' }
    }) as ServerFrame;

  beforeEach(() => {
    sessions = new Sessions();
    notebook = new Notebook();
    streams = [];
  });

  afterEach(() => {
    lease.dispose();
    jest.useRealTimers();
  });

  it('claims the notebook whenever it is connected', async () => {
    await start();
    const [stream] = streams;
    stream.connect();
    expect(stream.said).toEqual(['claim work.ipynb']);
    stream.lease(true);
    expect(lease.held).toBe(true);
    expect(notebook.refreshed).toBe(1);
    stream.drop();
    expect(lease.held).toBe(false);
    stream.connect();
    expect(stream.said).toEqual(['claim work.ipynb', 'claim work.ipynb']);
  });

  it('sends the version that it has loaded, and passes on what changed since', async () => {
    await start();
    const [stream] = streams;
    stream.connect();
    expect(stream.sent[0]).toMatchObject({ version: 'v1' });
    const standing = { written: 'v2', running: ['a'] };
    stream.frameReceived.emit({
      type: 'lease',
      notebook: 'work.ipynb',
      held: true,
      ...standing
    });
    expect(notebook.standing).toMatchObject(standing);
  });

  it('identifies the page in every claim', async () => {
    await start();
    streams[0].connect();
    streams[0].drop();
    streams[0].connect();
    const pages = streams[0].sent.map(frame => (frame as any).client);
    expect(pages[0]).toBeTruthy();
    expect(pages[1]).toBe(pages[0]);
  });

  it('applies operations on its notebook and acknowledges them', async () => {
    await start();
    const [stream] = streams;
    stream.connect();
    stream.frameReceived.emit(op('1'));
    stream.frameReceived.emit(op('2', 'other.ipynb'));
    await settle();
    expect(notebook.applied).toEqual(['1']);
    expect(stream.said).toContain('ack 1');
  });

  it('waits for a session', async () => {
    sessions.chosen = null;
    await start();
    expect(streams).toEqual([]);
    sessions.changed.emit({ notebook: 'other.ipynb', current: 's2' });
    expect(streams).toEqual([]);
    sessions.changed.emit({ notebook: 'work.ipynb', current: 's2' });
    expect(streams.map(stream => stream.sessionId)).toEqual(['s2']);
  });

  it('finds a session that was started elsewhere', async () => {
    sessions.chosen = null;
    await start();
    sessions.listed = ['s9', 's8'];
    lease.look();
    await settle();
    expect(streams.map(stream => stream.sessionId)).toEqual(['s9']);
  });

  it('passes from one session to the other without a gap', async () => {
    await start();
    const [first] = streams;
    first.connect();
    first.lease(true);
    sessions.changed.emit({ notebook: 'work.ipynb', current: 's2' });
    const second = streams[1];
    first.frameReceived.emit(op('1'));
    await settle();
    expect(first.said).toEqual(['claim work.ipynb', 'ack 1']);
    second.connect();
    expect(first.isDisposed).toBe(false);
    second.lease(false);
    expect(first.said).toContain('release work.ipynb');
    expect(first.isDisposed).toBe(true);
    second.lease(true);
    expect(lease.held).toBe(true);
  });

  describe('answered', () => {
    let answered: boolean;

    const wait = async (): Promise<void> => {
      answered = false;
      void lease.answered.then(() => {
        answered = true;
      });
      await settle();
    };

    it('resolves once the lease is held by this or another page', async () => {
      for (const held of [true, false]) {
        await start();
        const stream = streams[streams.length - 1];
        stream.connect();
        await wait();
        expect(answered).toBe(false);
        stream.lease(held);
        await settle();
        expect(answered).toBe(true);
        lease.dispose();
      }
    });

    it('resolves without a session, a server or the notebook', async () => {
      sessions.chosen = null;
      await start();
      await wait();
      expect(answered).toBe(true);

      sessions.changed.emit({ notebook: 'work.ipynb', current: 's1' });
      await wait();
      expect(answered).toBe(false);
      streams[0].drop();
      await settle();
      expect(answered).toBe(true);

      sessions.changed.emit({ notebook: 'work.ipynb', current: 's2' });
      await wait();
      expect(answered).toBe(false);
      lease.dispose();
      await settle();
      expect(answered).toBe(true);
    });
  });

  it('claims a revoked lease again', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick'] });
    await start();
    const [stream] = streams;
    stream.connect();
    stream.lease(true);
    stream.lease(false);
    expect(stream.said).toHaveLength(1);
    jest.runOnlyPendingTimers();
    expect(stream.said).toHaveLength(2);
  });

  it('waits for the lease without claiming it again', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick'] });
    await start();
    streams[0].connect();
    streams[0].lease(false);
    jest.runOnlyPendingTimers();
    expect(streams[0].said).toEqual(['claim work.ipynb']);
  });

  it('loads what another page has written, as often as that allows', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick'] });
    await start();
    const [stream] = streams;
    const written = (version: string): void =>
      stream.frameReceived.emit({
        type: 'lease',
        notebook: 'work.ipynb',
        held: false,
        written: version
      });
    stream.connect();
    written('v2');
    expect(notebook.standing).toMatchObject({ written: 'v2' });
    written('v3');
    written('v4');
    expect(notebook.refreshed).toBe(1);
    jest.runOnlyPendingTimers();
    expect(notebook.refreshed).toBe(2);
    expect(notebook.standing).toMatchObject({ written: 'v4' });
    // Not a second time behind what the new writer has to load at once.
    written('v5');
    stream.lease(true);
    expect(notebook.refreshed).toBe(3);
    jest.runOnlyPendingTimers();
    jest.runOnlyPendingTimers();
    expect(notebook.refreshed).toBe(3);
  });

  it('says which version it has saved or loaded', async () => {
    await start();
    const [first] = streams;
    first.connect();
    notebook.version = 'v2';
    notebook.versionChanged.emit('saved');
    expect(first.sent[1]).toMatchObject({
      type: 'lease',
      action: 'saved',
      notebook: 'work.ipynb',
      version: 'v2'
    });
    // The lease is held over this stream until another one is connected.
    sessions.changed.emit({ notebook: 'work.ipynb', current: 's2' });
    notebook.versionChanged.emit('loaded');
    expect(first.said[2]).toBe('loaded work.ipynb');
    streams[1].connect();
    notebook.versionChanged.emit('saved');
    expect(streams[1].said).toEqual(['claim work.ipynb', 'saved work.ipynb']);
    expect(first.said).toHaveLength(3);
  });

  it('tells of a version that cannot be merged once the server has said so twice', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick'] });
    await start();
    const [stream] = streams;
    stream.connect();
    const answer = async (behind: string | null): Promise<void> => {
      notebook.behind = behind;
      stream.lease(false);
      await settle();
      jest.advanceTimersByTime(300);
      await settle();
    };
    await answer('v2');
    await answer('v2');
    expect(notebook.toldBehind).toBe(0);
    expect(stream.said).toHaveLength(1);
    jest.advanceTimersByTime(2000);
    expect(stream.said).toEqual(['claim work.ipynb', 'claim work.ipynb']);
    // Another page has saved again, and is about to say so.
    await answer('v3');
    expect(notebook.toldBehind).toBe(0);
    jest.advanceTimersByTime(2000);
    expect(stream.said).toHaveLength(3);
    await answer('v3');
    expect(notebook.toldBehind).toBe(1);
    await answer(null);
    jest.advanceTimersByTime(2000);
    expect(stream.said).toHaveLength(3);
  });

  it('follows a rename', async () => {
    await start();
    const [stream] = streams;
    stream.connect();
    stream.lease(true);
    notebook.context.localPath = 'new.ipynb';
    notebook.context.pathChanged.emit('new.ipynb');
    await settle();
    await settle();
    expect(sessions.renamed).toEqual(['work.ipynb → new.ipynb']);
    expect(stream.said.slice(1)).toEqual([
      'claim new.ipynb',
      'release work.ipynb'
    ]);
    stream.frameReceived.emit(op('sent before'));
    await settle();
    expect(notebook.applied).toEqual(['sent before']);
  });

  it('claims over another session when its own is deleted', async () => {
    await start();
    streams[0].connect();
    sessions.listed = ['s2'];
    streams[0].drop('gone');
    await settle();
    expect(streams[0].isDisposed).toBe(true);
    expect(streams.map(({ sessionId }) => sessionId)).toEqual(['s1', 's2']);
  });

  it('does not connect again to its own deleted session', async () => {
    await start();
    streams[0].connect();
    streams[0].drop('gone');
    await settle();
    expect(streams).toHaveLength(1);
  });

  it('releases the notebook when it is closed', async () => {
    await start();
    const [stream] = streams;
    stream.connect();
    lease.dispose();
    lease.dispose();
    expect(stream.said).toEqual(['claim work.ipynb', 'release work.ipynb']);
    expect(stream.isDisposed).toBe(true);
  });

  it('looks at the disk each time that it is told that it is the writer', async () => {
    await start();
    streams[0].connect();
    streams[0].lease(true);
    streams[0].lease(true);
    expect(notebook.refreshed).toBe(2);
  });
});
