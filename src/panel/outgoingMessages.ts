import { IAttachment } from '../api/attachments';
import { ApiError, PrimeApi } from '../api/rest';
import { ISessions } from '../tokens';
import { Outbox } from './outbox';
import { isAllowed, IWaitingMessage } from './state';
import { PanelStore } from './store';
import { Variables } from './variables';

/** A message on its way to the server. */
interface IOutgoing extends IWaitingMessage {
  /** The attachments with the content of their cells. */
  readonly filled: IAttachment[];
  readonly notebook: string | null;
  /** Where a failure is shown. */
  place: string;
}

/** The messages on their way to the server, for which a session is created if there is none. */
export class OutgoingMessages {
  constructor(
    private readonly _options: OutgoingMessages.IOptions,
    private readonly _store: PanelStore,
    private readonly _variables: Variables
  ) {}

  /** Whether messages of the notebook are on their way. */
  isSending(notebook: string | null): boolean {
    return this._outbox.isSending(notebook);
  }

  /** Settles with the session of the message sent last; `null` if sending it failed. */
  get last(): Promise<string | null> {
    return this._last;
  }

  /**
   * Send a message to the session of the current notebook, after those on their way to it.
   *
   * A failure is shown, and then thrown.
   */
  async send(text: string, attachments: readonly IAttachment[]): Promise<void> {
    const { notebook, waiting } = this._store.state;
    const message: IOutgoing = {
      text,
      attachments,
      // Read the cells now, as the user sees them, and not after the session was created.
      filled: attachments.map(attachment => this._options.fill(attachment)),
      notebook,
      place: this._store.place
    };
    if (this.isSending(notebook)) {
      this._store.set({ waiting: [...waiting, message] });
    } else {
      this._shown = message;
      this._store.set({
        sending: text,
        sendingAttachments: attachments,
        failure: null,
        stopping: false
      });
    }
    const sent = this._outbox.send(notebook, message);
    this._last = sent.catch(() => null);
    try {
      await sent;
    } catch (reason) {
      this._store.fail(this._explained(reason), message.place);
      throw reason;
    } finally {
      this._store.set({
        waiting: this._store.state.waiting.filter(other => other !== message),
        // Another notebook's message may be on its way by now.
        ...(this._shown === message ? { sending: null } : {})
      });
    }
  }

  /**
   * Send a message, and return the id of its session.
   *
   * @param before - The session of the message before it, which may have created it.
   */
  private async _send(
    message: IOutgoing,
    before: string | null
  ): Promise<string> {
    const { text, filled, notebook } = message;
    const { api, claimed, messages, sessions } = this._options;
    if (notebook === null) {
      throw new ApiError(0, 'no_notebook', messages.noNotebook, '');
    }
    // The lookup may still be pending.
    let id = before ?? (await sessions.resolve(notebook));
    if (id === null) {
      const { newSession, server } = this._store.state;
      const { permissionMode, model } = newSession;
      const restore = this._variables.restoreMode;
      const session = await sessions.create({
        notebook,
        ...(permissionMode && isAllowed(server, permissionMode)
          ? { permission_mode: permissionMode }
          : {}),
        ...(model ? { model } : {}),
        ...(restore ? { restore } : {})
      });
      id = session.id;
    }
    message.place = id;
    await claimed(notebook);
    await api.send(id, text, filled);
    return id;
  }

  /** Say what became of a message; the banner about the connection says why. */
  private _explained(reason: unknown): unknown {
    const { notSent, notSentHint } = this._options.messages;
    return reason instanceof ApiError && reason.code === 'server_unreachable'
      ? new ApiError(reason.status, reason.code, notSent, notSentHint)
      : reason;
  }

  private _outbox = new Outbox<IOutgoing>((message, before) =>
    this._send(message, before)
  );
  /** The message that is shown as being sent. */
  private _shown: IOutgoing | null = null;
  private _last: Promise<string | null> = Promise.resolve(null);
}

export namespace OutgoingMessages {
  export interface IOptions {
    api: PrimeApi;
    sessions: ISessions;
    /** Fill in the cells of an attachment from an open notebook. */
    fill: (attachment: IAttachment) => IAttachment;
    /** Wait until the agent's changes go to the notebook that is open here. */
    claimed: (notebook: string) => Promise<void>;
    messages: { noNotebook: string; notSent: string; notSentHint: string };
  }
}
