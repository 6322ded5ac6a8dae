/**
 * What the panel does, without how it looks: it follows one notebook, shows its session and
 * carries out what the person asks for.
 */
import { ISignal, Signal } from '@lumino/signaling';

import { IAttachment } from '../api/attachments';
import { ServerFrame } from '../api/frames';
import { ApiError, PermissionMode, PrimeApi } from '../api/rest';
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
import { localCommand } from './slash';
import {
  failureOf,
  IKernelDisplay,
  IPanelState,
  isBusy,
  isOffline
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
      () => this._requestFocus()
    );
    this.modelConnection = new ModelConnection(_options.api, this._store, () =>
      this.sessions.begin()
    );
    _options.sessions.changed.connect(this._onSessionsChanged, this);
    void this.modelConnection.refresh();
  }

  /** The sessions of the notebook on show. */
  readonly sessions: NotebookSessions;

  /** The kernel's saved variables. */
  readonly variables: Variables;

  /** The server's connection to a model. */
  readonly modelConnection: ModelConnection;

  /** The message that is being written. */
  readonly message: DraftMessage;

  /** Emitted after changes, at most once for each painted frame. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** A frame of the session on show arrived live, not from the past. */
  get liveFrame(): ISignal<this, ServerFrame> {
    return this._liveFrame;
  }

  /** The composer should take the cursor. */
  get focusRequested(): ISignal<this, void> {
    return this._focusRequested;
  }

  /** Whether a composer that just appeared, or was asked to, should take the cursor; once. */
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

  /** The state now. The same object until something changes. */
  snapshot(): IPanelState {
    return this._store.snapshot();
  }

  open(): void {
    this._options.activate();
    this._requestFocus();
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
    if (command?.name === 'new') {
      await this.sessions.begin();
      return;
    }
    if (command?.name === 'help' && !isOffline(this._state)) {
      this.showSheet('help');
      return;
    }
    if (command?.name === 'compact') {
      await this.compact(command.rest);
      return;
    }
    this._store.set({
      sending: text,
      sendingAttachments: attachments,
      failure: null,
      stopping: false
    });
    const sent = this._send(text, attachments);
    this._sent = sent.catch(() => undefined);
    try {
      await sent;
    } catch (reason) {
      this._store.fail(reason);
      throw reason;
    } finally {
      this._store.set({ sending: null });
    }
  }

  /** Stop the agent, also while the message is still on its way to it. */
  async interrupt(): Promise<void> {
    if (!isBusy(this.snapshot())) {
      return;
    }
    this._store.set({ stopping: true });
    await this._sent;
    const id = this._state.sessionId;
    if (id) {
      await this._store.attempt(() => this._options.api.interrupt(id));
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
      // Answered here a moment ago; the record is still on its way.
      this._decided.has(callId)
    ) {
      return;
    }
    this._store.set({ deciding: new Set([...this._state.deciding, callId]) });
    // Another tab may have been faster: the server then says what was decided.
    await this._store.attempt(async () => {
      await this._options.api.decide(id, callId, decision, scope);
      this._decided.add(callId);
    });
    const deciding = new Set(this._state.deciding);
    deciding.delete(callId);
    this._store.set({ deciding });
    this._requestFocus();
  }

  async unqueue(seq: number): Promise<void> {
    const id = this._state.sessionId;
    if (id) {
      await this._store.attempt(() => this._options.api.unqueue(id, seq), {
        ignore: ['not_queued']
      });
    }
  }

  /** Go on writing a message that waits. */
  async editQueued(message: IQueuedMessage): Promise<void> {
    const { notebook, sessionId } = this._state;
    let taken = false;
    await this._store.attempt(
      async () => {
        await this._options.api.unqueue(sessionId!, message.seq);
        taken = true;
      },
      // It was sent this moment.
      { ignore: ['not_queued'] }
    );
    if (taken && notebook === this._state.notebook) {
      this.message.putBack(message.text, message.attachments);
      this._requestFocus();
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

  /** Take back what the agent changed in a turn; the records say what became of it. */
  async revertTurn(turn: string): Promise<void> {
    const id = this._state.sessionId;
    if (id) {
      await this._store.attempt(() => this._options.api.revertTurn(id, turn));
    }
  }

  /** What the next session starts with. */
  setNewSession(changes: Partial<IPanelState['newSession']>): void {
    this._store.set({ newSession: { ...this._state.newSession, ...changes } });
  }

  /** For the session on show, or the one to be made. */
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
      this._requestFocus();
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
      stopping: false,
      failure: null
    });
    await this._lookUp();
  }

  /** The notebook on show was renamed; its session goes with it. */
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

  /** Find the session of the notebook on show. */
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

  private async _send(
    text: string,
    attachments: readonly IAttachment[]
  ): Promise<void> {
    const { notebook } = this._state;
    // Now, not when the session is there: it is what the person sees.
    const filled = attachments.map(attachment =>
      this._options.fill(attachment)
    );
    if (notebook === null) {
      throw new ApiError(
        0,
        'no_notebook',
        this._options.messages.noNotebook,
        ''
      );
    }
    // It may still be looked up.
    let id = await this._options.sessions.resolve(notebook);
    if (id === null) {
      const { permissionMode, model } = this._state.newSession;
      const restore = this.variables.restoreMode;
      const session = await this._options.sessions.create({
        notebook,
        ...(permissionMode ? { permission_mode: permissionMode } : {}),
        ...(model ? { model } : {}),
        ...(restore ? { restore } : {})
      });
      id = session.id;
    }
    await this._options.claimed(notebook);
    await this._options.api.send(id, text, filled);
  }

  private _onSessionsChanged(_: ISessions, change: ISessions.IChange): void {
    if (change.notebook === this._state.notebook) {
      this._hold(change.current);
    }
  }

  /** Show a session live and let the one before go. */
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
    this._store.set({ sessionId: id, stopping: false, failure: null });
    void this.variables.applyRestoreMode();
  }

  private _onLiveFrame(_: LiveSession, frame: ServerFrame): void {
    this._liveFrame.emit(frame);
  }

  private _onConnection(_: LiveSession, connection: ConnectionStatus): void {
    if (connection === 'connected') {
      void this.modelConnection.refresh();
    } else if (connection === 'gone' && this._state.sessionId) {
      // Deleted, perhaps in another tab.
      const id = this._state.sessionId;
      void this._store.attempt(() => this._options.sessions.forget(id));
    }
  }

  private _requestFocus(): void {
    this._focusWanted = true;
    this._focusRequested.emit();
  }

  private get _state(): IPanelState {
    return this._store.state;
  }

  private _store: PanelStore;
  private _session: LiveSession | null = null;
  private _sent: Promise<void> = Promise.resolve();
  private _focusWanted = false;
  private _decided = new Set<string>();
  private _changed = new Signal<this, void>(this);
  private _liveFrame = new Signal<this, ServerFrame>(this);
  private _focusRequested = new Signal<this, void>(this);
}

export namespace PanelController {
  export interface IOptions {
    api: PrimeApi;
    sessions: ISessions;
    streams: ISessionStreams;
    drafts: Drafts;
    /** The attachment with what an open notebook has of its cells. */
    fill: (attachment: IAttachment) => IAttachment;
    /** Resolves once the agent would change the notebook here, where it is open. */
    claimed: (notebook: string) => Promise<void>;
    /** Bring the panel to the front. */
    activate: () => void;
    isVisible: () => boolean;
    /** Run once, soon. */
    schedule: (callback: () => void) => void;
    messages: {
      noNotebook: string;
      nothingToCompact: string;
      nothingSaved: string;
      imageUnreadable: string;
      recordsLost: string;
    };
  }
}
