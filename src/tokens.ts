/**
 * Tokens of the services that the plugins of this extension provide to each other and to other
 * extensions.
 *
 * Notebook paths are always relative to the server's root, without a drive
 * (`DocumentRegistry.Context.localPath`).
 */
import { Token } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal } from '@lumino/signaling';

import { IAttachment } from './api/attachments';
import { ClientFrame, ErrorFrame, ServerFrame } from './api/frames';
import {
  INewSession,
  INotebookInUse,
  ISessionChanges,
  ISessionDetail,
  ISessionSummary
} from './api/rest';
import { IConversation } from './model/items';

/** The sessions on the server, and the session selected for each open notebook. */
export interface ISessions {
  /** Emitted when a session of a notebook was created, selected, changed or deleted. */
  readonly changed: ISignal<ISessions, ISessions.IChange>;

  /** List the sessions of one notebook, or of all notebooks, newest first. */
  list(notebook?: string): Promise<ISessionSummary[]>;

  /** Start a session and select it for its notebook. */
  create(options: INewSession): Promise<ISessionDetail>;

  get(id: string): Promise<ISessionDetail>;
  patch(id: string, changes: ISessionChanges): Promise<ISessionDetail>;
  delete(id: string): Promise<void>;

  /**
   * Drop a session that was deleted, by this page or another, and select the next session of its
   * notebook.
   */
  forget(id: string): Promise<void>;

  /**
   * Return the session selected for a notebook: `null` if there is none, `undefined` if `resolve`
   * has not looked it up yet.
   */
  current(notebook: string): string | null | undefined;

  /**
   * Look up the session of a notebook: the one selected before, else the newest, else `null`.
   */
  resolve(notebook: string): Promise<string | null>;

  /** Select a session for a notebook and remember the selection. */
  select(notebook: string, id: string | null): Promise<void>;

  /** Move the sessions of a renamed notebook to its new path. */
  rename(from: string, to: string): Promise<void>;
}

export namespace ISessions {
  export interface IChange {
    readonly notebook: string;
    /** The session that is selected now. */
    readonly current: string | null;
  }
}

export const ISessions = new Token<ISessions>(
  'prime_ext:ISessions',
  'The sessions of the Prime agent, and which one belongs to which notebook.'
);

/** Sessions of all notebooks in which the agent is working or waiting for the user. */
export interface IActiveSessions {
  /** The active sessions, most recently updated first. */
  readonly sessions: readonly ISessionSummary[];
  /** Notebooks that agents in other processes are working on. */
  readonly elsewhere: readonly INotebookInUse[];
  /** Query the server now. */
  refresh(): void;
  readonly changed: ISignal<IActiveSessions, void>;
}

export const IActiveSessions = new Token<IActiveSessions>(
  'prime_ext:IActiveSessions',
  'The sessions in which the Prime agent works or waits for a person.'
);

export type ConnectionStatus =
  'connecting' | 'connected' | 'disconnected' | 'gone';

/**
 * One consumer's handle on the stream of a session. All handles of a session share one websocket,
 * which reconnects automatically and resumes after the last record, so that every record arrives
 * exactly once and in order. If the server lost the end of its log in a crash, the stream emits a
 * `reset` frame and then all records again.
 */
export interface ISessionStream extends IDisposable {
  readonly sessionId: string;

  /** Emitted for each frame. `replay()` returns the frames that arrived before `acquire`. */
  readonly frameReceived: ISignal<ISessionStream, ServerFrame>;

  /** Emitted with the status when it, or `refusal`, changes. */
  readonly connectionChanged: ISignal<ISessionStream, ConnectionStatus>;

  readonly connected: boolean;

  /** `gone`: the session no longer exists on the server, and reconnecting has stopped. */
  readonly status: ConnectionStatus;

  /**
   * Why the server refuses the session, for example because another process has it open; else
   * `null`. The status stays `disconnected` until the server accepts it.
   */
  readonly refusal: ErrorFrame | null;

  /** Resolves when the initial replay of the existing records is complete. */
  readonly ready: Promise<void>;

  /**
   * Return the frames that bring a new consumer up to date: all records, the deltas of the message
   * being streamed, the progress of running calls, and the last `ready` or `state`.
   */
  replay(): ServerFrame[];

  /**
   * Send a frame.
   *
   * @returns `false` if the frame was dropped because the stream is not connected. Once
   * `connectionChanged` emits `connected`, the server repeats its request; a lease must be claimed
   * again.
   */
  send(frame: ClientFrame): boolean;

  /** Try to reconnect now instead of waiting for the next attempt. */
  reconnect(): void;
}

/** The streams of the sessions. The consumers of a session share one websocket. */
export interface ISessionStreams {
  /**
   * Get a handle on the stream of a session. Dispose of the handle to release the stream.
   *
   * @param options.records - Whether the consumer needs all records (default). Without, the stream
   * only has the frames that the server sends from now on, and nothing of a session has to be
   * loaded and kept in memory for it. Another consumer may have the records loaded all the same.
   */
  acquire(sessionId: string, options?: { records?: boolean }): ISessionStream;
}

export const ISessionStreams = new Token<ISessionStreams>(
  'prime_ext:ISessionStreams',
  'Live streams of the sessions of the Prime agent.'
);

/** Applies the agent's operations to the notebooks that are open in this page. */
export interface INotebookWriter {
  /**
   * Wait until the server knows that this page has the notebook open. Until then the agent's
   * operations are written to the file and bypass the open notebook. Resolves at once if the
   * notebook is not open here, and after a timeout if the server does not answer.
   *
   * Rejects, with a message for the user, if this page cannot show changes to the notebook.
   */
  claimed(notebook: string): Promise<void>;
}

export const INotebookWriter = new Token<INotebookWriter>(
  'prime_ext:INotebookWriter',
  'Lets the operations of the Prime agent into the notebooks that are open.'
);

/** The agent's side panel. */
export interface IChatPanel {
  /** The notebook the panel follows; `null` if none is open. */
  readonly notebook: string | null;
  /** Id of the session that is shown; `null` before the first message. */
  readonly sessionId: string | null;
  /** The conversation that is shown; `null` if there is none. */
  readonly conversation: IConversation | null;
  /** Whether the panel is visible, that is, neither closed nor hidden by another panel. */
  readonly isVisible: boolean;
  readonly changed: ISignal<IChatPanel, void>;

  /** Text in the composer. */
  readonly draft: string;

  /** Show the panel and put the cursor into the composer. */
  open(): void;

  /** Send a message as if the user had typed it. Starts a session if there is none. */
  submit(text: string, attachments?: readonly IAttachment[]): Promise<void>;

  /**
   * Put text into the composer, for the user to edit and send.
   *
   * @param attachments - Attachments to add to the message. The server reads cells without
   * `source` when the message is sent.
   */
  compose(text: string, attachments?: IAttachment[]): void;

  /** Add attachments to the message in the composer. */
  attach(...attachments: IAttachment[]): void;

  /** Interrupt the agent's current turn. */
  interrupt(): Promise<void>;
}

export const IChatPanel = new Token<IChatPanel>(
  'prime_ext:IChatPanel',
  'The side panel of the Prime agent.'
);
