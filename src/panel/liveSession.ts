import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { ErrorFrame, ServerFrame } from '../api/frames';
import { Conversation } from '../model/conversation';
import { ConnectionStatus, ISessionStream } from '../tokens';
import { IFailure, isSending } from './state';
import { PanelStore } from './store';

/** The current session: applies the frames of its stream to the panel's state. */
export class LiveSession implements IDisposable {
  /**
   * @param _stream - Stream of the session; disposed together with this object.
   * @param _recordsLost - Error message if the server has lost records in a crash.
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
    this._showConnection();
  }

  /** Emitted for each live frame; not for replayed frames. */
  get liveFrame(): ISignal<this, ServerFrame> {
    return this._liveFrame;
  }

  /** Emitted when the status of the connection changes, after the state was updated. */
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
    this._store.set({ connection: null, refusal: null });
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
    // Do not take a snapshot per frame: it copies the items of a long session.
    const live = this._conversation.ready;
    this._conversation.apply(frame);
    if (live) {
      this._liveFrame.emit(frame);
    }
    const { sending, waiting } = this._store.state;
    // The record often arrives before the response; do not show the message twice.
    if (sending !== null && isRecordOf(frame, sending)) {
      this._store.set({ sending: null });
    } else if (waiting.length > 0 && isRecordOf(frame, waiting[0].text)) {
      this._store.set({ waiting: waiting.slice(1) });
    }
    if (frame.type === 'error') {
      this._store.set({ failure: failureIn(frame) });
    }
    const state = this._store.state;
    if (state.stopping && !isSending(state) && !this._conversation.running) {
      this._store.set({ stopping: false });
    }
    this._store.changedLater();
  }

  private _onConnection(_: ISessionStream, connection: ConnectionStatus): void {
    this._showConnection();
    this._connectionChanged.emit(connection);
  }

  private _showConnection(): void {
    const { status, refusal } = this._stream;
    this._store.set({
      connection: status,
      refusal: refusal && failureIn(refusal)
    });
  }

  private _conversation = new Conversation();
  private _liveFrame = new Signal<this, ServerFrame>(this);
  private _connectionChanged = new Signal<this, ConnectionStatus>(this);
}

function failureIn({ code, message, hint }: ErrorFrame): IFailure {
  return { code, message, hint: hint ?? '' };
}

/** Whether a frame is the record of the message that is being sent. */
function isRecordOf(frame: ServerFrame, text: string): boolean {
  return (
    frame.type === 'record' &&
    (frame.record.kind === 'user_message' || frame.record.kind === 'queued') &&
    frame.record.text === text
  );
}
