import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { ServerFrame } from '../api/frames';
import { Conversation } from '../model/conversation';
import { ConnectionStatus, ISessionStream } from '../tokens';
import { PanelStore } from './store';

/** The session on show: its stream, and what the frames change in the panel's state. */
export class LiveSession implements IDisposable {
  /**
   * @param _stream - Disposed with this.
   * @param _recordsLost - Said where the server has lost records in a crash.
   */
  constructor(
    private readonly _stream: ISessionStream,
    private readonly _store: PanelStore,
    private readonly _recordsLost: string
  ) {
    _stream.replay().forEach(frame => this._conversation.apply(frame));
    _stream.frameReceived.connect(this._onFrame, this);
    _stream.connectionChanged.connect(this._onConnection, this);
    _store.conversation = this._conversation;
    _store.set({ connection: _stream.status });
  }

  /** A frame arrived live, not from the past. */
  get liveFrame(): ISignal<this, ServerFrame> {
    return this._liveFrame;
  }

  /** The connection came or went; the state says so already. */
  get connectionChanged(): ISignal<this, ConnectionStatus> {
    return this._connectionChanged;
  }

  get isDisposed(): boolean {
    return this._stream.isDisposed;
  }

  reconnect(): void {
    this._stream.reconnect();
  }

  dispose(): void {
    this._stream.dispose();
    this._store.conversation = null;
    this._store.set({ connection: null });
    Signal.clearData(this);
  }

  private _onFrame(_: ISessionStream, frame: ServerFrame): void {
    if (frame.type === 'reset') {
      this._conversation = new Conversation();
      this._store.conversation = this._conversation;
      this._store.set({
        failure: { code: 'records_lost', message: this._recordsLost, hint: '' }
      });
      return;
    }
    // No snapshot for each frame: a long session would be copied once for each record.
    const live = this._conversation.ready;
    this._conversation.apply(frame);
    if (live) {
      this._liveFrame.emit(frame);
    }
    const { sending } = this._store.state;
    if (sending !== null && isRecordOf(frame, sending)) {
      // The record is often here before the answer to the request: not both are shown.
      this._store.set({ sending: null });
    }
    if (frame.type === 'error') {
      this._store.set({
        failure: {
          code: frame.code,
          message: frame.message,
          hint: frame.hint ?? ''
        }
      });
    }
    const state = this._store.state;
    if (
      state.stopping &&
      state.sending === null &&
      !this._conversation.running
    ) {
      this._store.set({ stopping: false });
    }
    this._store.changedLater();
  }

  private _onConnection(_: ISessionStream, connection: ConnectionStatus): void {
    this._store.set({ connection });
    this._connectionChanged.emit(connection);
  }

  private _conversation = new Conversation();
  private _liveFrame = new Signal<this, ServerFrame>(this);
  private _connectionChanged = new Signal<this, ConnectionStatus>(this);
}

/** Whether a frame brings the record of a message that is on its way. */
function isRecordOf(frame: ServerFrame, text: string): boolean {
  return (
    frame.type === 'record' &&
    (frame.record.kind === 'user_message' || frame.record.kind === 'queued') &&
    frame.record.text === text
  );
}
