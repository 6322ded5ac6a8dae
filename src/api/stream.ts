/**
 * Live streams of sessions: one websocket for each session in use, shared by its consumers.
 */
import { PromiseDelegate } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

import { ConnectionStatus, ISessionStream, ISessionStreams } from '../tokens';
import { FrameBuffer } from './frameBuffer';
import { ClientFrame, ErrorFrame, ServerFrame } from './frames';
import { ApiError, PrimeApi } from './rest';

/** First and longest delay before a reconnection attempt, in milliseconds. */
const FIRST_DELAY = 500;
const LONGEST_DELAY = 10_000;

/**
 * Longest delay while the server refuses the session, in milliseconds: it may be free again as soon
 * as another process ends, and the user waits for that.
 */
const LONGEST_REFUSED_DELAY = 5_000;

/**
 * `seq` after which a connection without records resumes: no record has a larger one, so the server
 * sends only what is new.
 */
const ONLY_NEW = Number.MAX_SAFE_INTEGER;

/**
 * Number of sessions whose records are kept in memory. Switching between a few notebooks shows
 * their sessions at once; those shown longer ago are loaded again.
 */
const KEPT = 3;

/** Close codes for a session that does not exist, or no longer exists. */
const GONE_CODES = [4404, 4410];

/**
 * The websocket of one session. It reconnects for as long as the session exists. With records, it
 * resumes after the last record, so that no record is missed or delivered twice. Without, it only
 * passes on what the server sends while it is connected, and keeps nothing.
 */
export class SessionConnection {
  constructor(
    readonly sessionId: string,
    private readonly _api: PrimeApi,
    withRecords: boolean
  ) {
    this._buffer = withRecords ? new FrameBuffer() : null;
    window.addEventListener('online', this._onOnline);
    this._connect();
  }

  get status(): ConnectionStatus {
    return this._status;
  }

  get refusal(): ErrorFrame | null {
    return this._refusal;
  }

  get ready(): Promise<void> {
    return this._ready.promise;
  }

  get frameReceived(): ISignal<this, ServerFrame> {
    return this._frameReceived;
  }

  get connectionChanged(): ISignal<this, ConnectionStatus> {
    return this._connectionChanged;
  }

  get hasRecords(): boolean {
    return this._buffer !== null;
  }

  /** Load all records, by connecting again, and keep them. */
  loadRecords(): void {
    if (this._buffer === null && this._status !== 'gone') {
      this._buffer = new FrameBuffer();
      this._ready = unobserved();
      this._attempt = 0;
      this._connect();
    }
  }

  /** Drop the records. The connection stays as it is. */
  dropRecords(): void {
    this._buffer = null;
  }

  replay(): ServerFrame[] {
    return this._buffer?.replay() ?? [];
  }

  send(frame: ClientFrame): boolean {
    if (this._status !== 'connected' || this._socket === null) {
      return false;
    }
    this._socket.send(JSON.stringify(frame));
    return true;
  }

  reconnect(): void {
    if (this._status === 'disconnected') {
      this._attempt = 0;
      this._connect();
    }
  }

  dispose(): void {
    this._disposed = true;
    window.removeEventListener('online', this._onOnline);
    window.clearTimeout(this._timer);
    this._dropSocket();
    Signal.clearData(this);
  }

  private _connect(): void {
    window.clearTimeout(this._timer);
    this._dropSocket();
    this._isAnswered = false;
    if (!this._refusal) {
      this._setStatus('connecting');
    }
    const { WebSocket } = this._api.serverSettings;
    const socket = new WebSocket(
      this._api.streamUrl(this.sessionId, this._buffer?.resumeAfter ?? ONLY_NEW)
    );
    this._socket = socket;
    let opened = false;
    socket.onopen = () => {
      opened = true;
      // The server accepts the connection before it refuses the session.
      if (!this._refusal) {
        this._setStatus('connected');
      }
    };
    let refusal: ErrorFrame | null = null;
    socket.onmessage = event => {
      refusal = this._onMessage(event.data) ?? refusal;
    };
    socket.onclose = event => {
      this._dropSocket();
      const known = opened && !GONE_CODES.includes(event.code);
      void this._afterClose(known, refusal);
    };
  }

  /** Process a frame. An error in place of the session's frames is returned instead. */
  private _onMessage(data: unknown): ErrorFrame | void {
    let frame: ServerFrame;
    try {
      frame = JSON.parse(String(data));
    } catch {
      console.warn('Prime: a frame that is not JSON was ignored.');
      return;
    }
    if (!this._isAnswered) {
      if (frame.type === 'error') {
        return frame;
      }
      this._isAnswered = true;
      this._setStatus('connected');
      // Only now: what had arrived of a reply stays on the screen for as long as there is no more.
      for (const reset of this._buffer?.restart() ?? []) {
        this._frameReceived.emit(reset);
      }
    }
    if (frame.type === 'progress' && this._buffer) {
      const whole = this._buffer.whole(frame);
      if (whole === null) {
        this._resynchronise();
        return;
      }
      frame = whole;
    }
    switch (this._buffer?.push(frame)) {
      case undefined:
      case 'new':
        break;
      case 'duplicate':
        return;
      case 'gap':
        // The server skipped records.
        this._resynchronise();
        return;
      case 'diverged':
        // The server crashed before the end of its log was on disk: start again from nothing.
        this._buffer = new FrameBuffer();
        this._frameReceived.emit({ type: 'reset' });
        this._connect();
        return;
    }
    this._frameReceived.emit(frame);
    if (frame.type === 'ready') {
      this._attempt = 0;
      this._ready.resolve();
    }
  }

  /**
   * Reconnect after a delay, unless the session no longer exists. A browser does not report why a
   * handshake failed; so after a failed handshake, or a close code for a missing session, query the
   * session first.
   *
   * @param known - Whether the session is known to exist.
   * @param refusal - Why the server refused the session, if it did.
   */
  private async _afterClose(
    known: boolean,
    refusal: ErrorFrame | null
  ): Promise<void> {
    this._setStatus('disconnected', refusal);
    if (!known) {
      try {
        await this._api.session(this.sessionId);
      } catch (reason) {
        if (reason instanceof ApiError && reason.status === 404) {
          if (!this._disposed) {
            // `reconnect` may have been called meanwhile.
            this._dropSocket();
            this._ready.reject(reason);
            this._setStatus('gone');
          }
          return;
        }
      }
    }
    if (!this._disposed && this._status === 'disconnected') {
      this._retryLater();
    }
  }

  /**
   * Connect again, because frames are missing. The server sends the records after the last one in
   * the buffer, and all outputs of running calls.
   */
  private _resynchronise(): void {
    this._dropSocket();
    this._retryLater();
  }

  private _retryLater(): void {
    this._setStatus('disconnected', this._refusal);
    const longest = Math.min(
      this._refusal ? LONGEST_REFUSED_DELAY : LONGEST_DELAY,
      FIRST_DELAY * 2 ** this._attempt
    );
    this._attempt += 1;
    // Jitter, so that the pages of all users do not reconnect at the same moment.
    const delay = longest * (0.5 + Math.random() / 2);
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(() => this._connect(), delay);
  }

  private _dropSocket(): void {
    const socket = this._socket;
    this._socket = null;
    if (socket) {
      socket.onopen = null;
      socket.onmessage = null;
      socket.onclose = null;
      socket.close();
    }
  }

  private _setStatus(
    status: ConnectionStatus,
    refusal: ErrorFrame | null = null
  ): void {
    const changed =
      status !== this._status || refusal?.code !== this._refusal?.code;
    if (changed && !this._disposed) {
      this._status = status;
      this._refusal = refusal;
      this._connectionChanged.emit(status);
    }
  }

  private readonly _onOnline = (): void => this.reconnect();

  private _status: ConnectionStatus = 'connecting';
  private _refusal: ErrorFrame | null = null;
  /** Whether the current socket has received a frame of the session. */
  private _isAnswered = false;
  private _socket: WebSocket | null = null;
  /** `null`: without records. */
  private _buffer: FrameBuffer | null;
  private _attempt = 0;
  private _timer = 0;
  private _disposed = false;
  private _ready = unobserved();
  private _frameReceived = new Signal<this, ServerFrame>(this);
  private _connectionChanged = new Signal<this, ConnectionStatus>(this);
}

/** Return a promise that may be rejected although nobody awaits it. */
function unobserved(): PromiseDelegate<void> {
  const delegate = new PromiseDelegate<void>();
  delegate.promise.catch(() => undefined);
  return delegate;
}

interface IEntry {
  readonly connection: SessionConnection;
  /** Number of consumers, and of those that need the records. */
  holders: number;
  readers: number;
}

/** Hands out streams. The websocket of a session closes when its last consumer disposes. */
export class SessionStreams implements ISessionStreams {
  constructor(private readonly _api: PrimeApi) {}

  acquire(
    sessionId: string,
    { records = true }: { records?: boolean } = {}
  ): ISessionStream {
    const entry: IEntry = this._entries.get(sessionId) ?? {
      connection: new SessionConnection(sessionId, this._api, records),
      holders: 0,
      readers: 0
    };
    entry.holders += 1;
    if (records) {
      entry.readers += 1;
      entry.connection.loadRecords();
      // The entries are in the order in which they were last acquired with records.
      this._entries.delete(sessionId);
    }
    this._entries.set(sessionId, entry);
    this._dropOldRecords();
    return new HeldStream(entry.connection, () => {
      entry.holders -= 1;
      entry.readers -= records ? 1 : 0;
      if (entry.holders === 0) {
        this._entries.delete(sessionId);
        entry.connection.dispose();
      }
      this._dropOldRecords();
    });
  }

  private _dropOldRecords(): void {
    const loaded = [...this._entries.values()].filter(
      ({ connection }) => connection.hasRecords
    );
    for (const { connection, readers } of loaded.slice(0, -KEPT)) {
      if (readers === 0) {
        connection.dropRecords();
      }
    }
  }

  private _entries = new Map<string, IEntry>();
}

/** One consumer's handle on a shared connection. */
class HeldStream implements ISessionStream {
  constructor(
    private readonly _connection: SessionConnection,
    private readonly _release: () => void
  ) {
    _connection.frameReceived.connect(this._onFrame, this);
    _connection.connectionChanged.connect(this._onConnection, this);
  }

  get sessionId(): string {
    return this._connection.sessionId;
  }

  get frameReceived(): ISignal<ISessionStream, ServerFrame> {
    return this._frameReceived;
  }

  get connectionChanged(): ISignal<ISessionStream, ConnectionStatus> {
    return this._connectionChanged;
  }

  get connected(): boolean {
    return this.status === 'connected';
  }

  get status(): ConnectionStatus {
    return this._connection.status;
  }

  get refusal(): ErrorFrame | null {
    return this._connection.refusal;
  }

  get ready(): Promise<void> {
    return this._connection.ready;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  replay(): ServerFrame[] {
    return this._connection.replay();
  }

  send(frame: ClientFrame): boolean {
    return !this._isDisposed && this._connection.send(frame);
  }

  reconnect(): void {
    this._connection.reconnect();
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._connection.frameReceived.disconnect(this._onFrame, this);
    this._connection.connectionChanged.disconnect(this._onConnection, this);
    Signal.clearData(this);
    this._release();
  }

  private _onFrame(_: SessionConnection, frame: ServerFrame): void {
    this._frameReceived.emit(frame);
  }

  private _onConnection(_: SessionConnection, status: ConnectionStatus): void {
    this._connectionChanged.emit(status);
  }

  private _isDisposed = false;
  private _frameReceived = new Signal<ISessionStream, ServerFrame>(this);
  private _connectionChanged = new Signal<ISessionStream, ConnectionStatus>(
    this
  );
}
