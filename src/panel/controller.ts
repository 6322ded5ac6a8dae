/**
 * The panel's logic, without its views: it follows one notebook, shows the notebook's session and
 * executes the actions of the user.
 */
import { ISignal, Signal } from '@lumino/signaling';

import { IAttachment } from '../api/attachments';
import { ServerFrame } from '../api/frames';
import { PermissionMode } from '../api/rest';
import { IConversation, IQueuedMessage } from '../model/items';
import {
  ConnectionStatus,
  IChatPanel,
  ISessions,
  ISessionStreams
} from '../tokens';
import { DraftMessage } from './draftMessage';
import { Drafts } from './drafts';
import { LiveSession } from './liveSession';
import { ModelConnection } from './modelConnection';
import { NotebookSessions } from './notebookSessions';
import { OutgoingMessages } from './outgoingMessages';
import { localCommand } from './slash';
import {
  failureOf,
  IKernelDisplay,
  IPanelState,
  isBusy,
  isOffline,
  isSending
} from './state';
import { PanelStore } from './store';
import { Variables } from './variables';

export class PanelController implements IChatPanel {
  constructor(private readonly _options: PanelController.IOptions) {
    this._store = new PanelStore(_options.schedule, () => this._changed.emit());
    this.variables = new Variables(
      _options.api,
      _options.sessions,
      this._store,
      _options.messages.nothingSaved
    );
    this._outgoing = new OutgoingMessages(
      _options,
      this._store,
      this.variables
    );
    this.message = new DraftMessage(
      this._store,
      _options.drafts,
      (text, attachments) => this.submit(text, attachments),
      _options.messages.imageUnreadable
    );
    this.sessions = new NotebookSessions(
      _options.api,
      _options.sessions,
      this._store,
      () => this.requestFocus()
    );
    this.modelConnection = new ModelConnection(_options.api, this._store, () =>
      this.sessions.begin()
    );
    _options.sessions.changed.connect(this._onSessionsChanged, this);
    void this.modelConnection.refresh();
  }

  /** The sessions of the current notebook. */
  readonly sessions: NotebookSessions;

  /** The kernel's saved variables. */
  readonly variables: Variables;

  /** The server's connection to a model. */
  readonly modelConnection: ModelConnection;

  /** The message in the composer. */
  readonly message: DraftMessage;

  /** Emitted after changes, usually at most once per animation frame. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted for each live frame of the current session; not for replayed frames. */
  get liveFrame(): ISignal<this, ServerFrame> {
    return this._liveFrame;
  }

  /** Emitted when the composer should take the focus. */
  get focusRequested(): ISignal<this, void> {
    return this._focusRequested;
  }

  /** Let the composer take the focus. */
  requestFocus(): void {
    this._focusWanted = true;
    this._focusRequested.emit();
  }

  /** Return whether the composer should take the focus, and clear the request. */
  takeFocus(): boolean {
    const wanted = this._focusWanted;
    this._focusWanted = false;
    return wanted;
  }

  get notebook(): string | null {
    return this._state.notebook;
  }

  get sessionId(): string | null {
    return this._state.sessionId ?? null;
  }

  get conversation(): IConversation | null {
    return this.snapshot().conversation;
  }

  get draft(): string {
    return this._state.draft;
  }

  get isVisible(): boolean {
    return this._options.isVisible();
  }

  /** Return the current state. The object is reused until something changes. */
  snapshot(): IPanelState {
    return this._store.snapshot();
  }

  open(): void {
    this._options.activate();
    this.requestFocus();
  }

  compose(text: string, attachments: IAttachment[] = []): void {
    this.message.setText(text);
    this.attach(...attachments);
    this.open();
  }

  attach(...attachments: IAttachment[]): void {
    this.message.attach(...attachments);
  }

  async submit(
    text: string,
    attachments: readonly IAttachment[] = []
  ): Promise<void> {
    const command = localCommand(text);
    if (command?.name === 'help' && !isOffline(this._state)) {
      this.showSheet('help');
      return;
    }
    const { notebook } = this._state;
    if (command?.name === 'new' || command?.name === 'compact') {
      // They are about the session that the messages before them create.
      if (this._outgoing.isSending(notebook)) {
        await this._outgoing.last;
      }
      if (notebook !== this._state.notebook) {
        return;
      }
    }
    if (command?.name === 'new') {
      await this.sessions.begin();
      return;
    }
    if (command?.name === 'compact') {
      await this.compact(command.rest);
      return;
    }
    await this._outgoing.send(text, attachments);
  }

  /** Interrupt the agent; if messages are still being sent, wait for them first. */
  async interrupt(): Promise<void> {
    if (!isBusy(this.snapshot())) {
      return;
    }
    const { sessionId } = this._state;
    const sending = isSending(this._state);
    this._store.set({ stopping: true });
    // By then, the panel may show another session, whose agent must not be interrupted.
    const id = (sending && (await this._outgoing.last)) || sessionId;
    if (id) {
      await this._store.attempt(() => this._options.api.interrupt(id), {
        place: id
      });
    }
    if (!this._store.conversation?.running) {
      this._store.set({ stopping: false });
    }
  }

  async decide(
    callId: string,
    decision: 'allow' | 'deny',
    scope: 'once' | 'session' = 'once'
  ): Promise<void> {
    const id = this._state.sessionId;
    if (
      !id ||
      this._state.deciding.has(callId) ||
      // This page has just decided it; the record has not arrived yet.
      this._decided.has(callId)
    ) {
      return;
    }
    this._store.set({ deciding: new Set([...this._state.deciding, callId]) });
    // If another page decided first, the server's error says what was decided.
    await this._store.attempt(async () => {
      await this._options.api.decide(id, callId, decision, scope);
      this._decided.add(callId);
    });
    const deciding = new Set(this._state.deciding);
    deciding.delete(callId);
    this._store.set({ deciding });
  }

  /** Send what is queued, after a stop or an error. */
  async sendQueued(): Promise<void> {
    const id = this._state.sessionId;
    if (id) {
      // The button goes away with the beginning of the turn.
      this.requestFocus();
      await this._store.attempt(() => this._options.api.sendQueued(id));
    }
  }

  async unqueue(seq: number): Promise<void> {
    const id = this._state.sessionId;
    if (id) {
      this.requestFocus();
      await this._store.attempt(() => this._options.api.unqueue(id, seq), {
        ignore: ['not_queued']
      });
    }
  }

  /** Take a message out of the queue and put it back into the composer. */
  async editQueued(message: IQueuedMessage): Promise<void> {
    const { notebook, sessionId } = this._state;
    let taken = false;
    await this._store.attempt(
      async () => {
        await this._options.api.unqueue(sessionId!, message.seq);
        taken = true;
      },
      // The message has just been sent to the agent.
      { ignore: ['not_queued'] }
    );
    if (taken && notebook !== null) {
      this.message.putBack(notebook, message.text, message.attachments);
      if (notebook === this._state.notebook) {
        this.requestFocus();
      }
    }
  }

  async compact(instructions = ''): Promise<void> {
    const id = this._state.sessionId;
    if (id) {
      await this._store.attempt(() =>
        this._options.api.compact(id, instructions)
      );
    } else {
      this._store.set({
        failure: {
          code: 'nothing_to_compact',
          message: this._options.messages.nothingToCompact,
          hint: ''
        }
      });
    }
  }

  /** Revert the changes that the agent made in a turn. The records report the outcome. */
  async revertTurn(turn: string): Promise<void> {
    const id = this._state.sessionId;
    if (id) {
      await this._store.attempt(() => this._options.api.revertTurn(id, turn));
    }
  }

  /** Change the settings that the next session starts with. */
  setNewSession(changes: Partial<IPanelState['newSession']>): void {
    this._store.set({ newSession: { ...this._state.newSession, ...changes } });
  }

  /** Set the permission mode of the current session, or of the next one if there is none. */
  async setPermissionMode(mode: PermissionMode): Promise<void> {
    const id = this._state.sessionId;
    if (id) {
      await this._store.attempt(() =>
        this._options.sessions.patch(id, { permission_mode: mode })
      );
    } else {
      this.setNewSession({ permissionMode: mode });
    }
  }

  async setModel(model: string): Promise<void> {
    const id = this._state.sessionId;
    if (id) {
      await this._store.attempt(() =>
        this._options.sessions.patch(id, { model })
      );
    } else {
      this.setNewSession({ model });
    }
  }

  showSheet(sheet: IPanelState['sheet']): void {
    this._store.set({ sheet });
    if (sheet === 'none') {
      this.requestFocus();
    }
  }

  dismissFailure(): void {
    this._store.set({ failure: null });
  }

  async reconnect(): Promise<void> {
    this._session?.reconnect();
    await this.modelConnection.refresh();
    if (this._state.sessionId === undefined) {
      await this._lookUp();
    }
  }

  /** Follow another notebook. */
  async setNotebook(notebook: string | null): Promise<void> {
    if (notebook === this._state.notebook) {
      return;
    }
    this._hold(undefined);
    this._store.set({
      notebook,
      ...this.message.load(notebook),
      sending: null,
      waiting: [],
      stopping: false,
      failure: null
    });
    await this._lookUp();
  }

  /** Handle a rename of the current notebook, which keeps its session. */
  renameNotebook(notebook: string): void {
    const { notebook: before } = this._state;
    this._store.set({ notebook });
    this.message.renamed(before);
  }

  setKernel(kernel: IKernelDisplay | null): void {
    const { kernel: old } = this._state;
    if (kernel?.name !== old?.name || kernel?.status !== old?.status) {
      this._store.set({ kernel });
    }
  }

  /** Look up the session of the current notebook. */
  private async _lookUp(): Promise<void> {
    const { notebook } = this._state;
    if (notebook === null) {
      return;
    }
    try {
      const id = await this._options.sessions.resolve(notebook);
      if (this._state.notebook === notebook) {
        this._hold(id);
      }
    } catch (reason) {
      if (this._state.notebook === notebook) {
        this._store.set({ serverFailure: failureOf(reason) });
      }
    }
  }

  private _onSessionsChanged(_: ISessions, change: ISessions.IChange): void {
    if (change.notebook === this._state.notebook) {
      this._hold(change.current);
    }
  }

  /** Connect to a session and release the previous one. */
  private _hold(id: string | null | undefined): void {
    if (id === this._state.sessionId) {
      return;
    }
    this._session?.dispose();
    this._session = null;
    if (id) {
      this._session = new LiveSession(
        this._options.streams.acquire(id),
        this._store,
        this._options.messages.recordsLost
      );
      this._session.liveFrame.connect(this._onLiveFrame, this);
      this._session.connectionChanged.connect(this._onConnection, this);
    }
    this._store.setSession(id);
    void this.variables.applyRestoreMode();
  }

  private _onLiveFrame(_: LiveSession, frame: ServerFrame): void {
    this._liveFrame.emit(frame);
  }

  private _onConnection(_: LiveSession, connection: ConnectionStatus): void {
    if (connection === 'connected') {
      if (this._state.failure?.code === 'server_unreachable') {
        // It responds again.
        this.dismissFailure();
      }
      void this.modelConnection.refresh();
    } else if (connection === 'gone' && this._state.sessionId) {
      // The session was deleted, possibly by another page.
      const id = this._state.sessionId;
      void this._store.attempt(() => this._options.sessions.forget(id));
    }
  }

  private get _state(): IPanelState {
    return this._store.state;
  }

  private _store: PanelStore;
  private _session: LiveSession | null = null;
  private _outgoing: OutgoingMessages;
  private _focusWanted = false;
  private _decided = new Set<string>();
  private _changed = new Signal<this, void>(this);
  private _liveFrame = new Signal<this, ServerFrame>(this);
  private _focusRequested = new Signal<this, void>(this);
}

export namespace PanelController {
  export interface IOptions extends OutgoingMessages.IOptions {
    streams: ISessionStreams;
    drafts: Drafts;
    /** Show the panel. */
    activate: () => void;
    isVisible: () => boolean;
    /** Schedule a callback to run once, soon. */
    schedule: (callback: () => void) => void;
    messages: OutgoingMessages.IOptions['messages'] & {
      nothingToCompact: string;
      nothingSaved: string;
      imageUnreadable: string;
      recordsLost: string;
    };
  }
}
