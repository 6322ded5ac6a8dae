/**
 * What the plugins of this extension offer to each other, and to other extensions.
 *
 * Notebook paths are always relative to the server's root, without a drive
 * (`DocumentRegistry.Context.localPath`).
 */
import { Token } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal } from '@lumino/signaling';

import { IAttachment } from './api/attachments';
import { ClientFrame, ServerFrame } from './api/frames';
import {
  INewSession,
  INotebookInUse,
  ISessionChanges,
  ISessionDetail,
  ISessionSummary
} from './api/rest';
import { IConversation } from './model/items';

/** The sessions on the server, and which of them belongs to which open notebook. */
export interface ISessions {
  /** Something about the sessions of a notebook changed: one was made, chosen, renamed, deleted. */
  readonly changed: ISignal<ISessions, ISessions.IChange>;

  /** Sessions of one notebook, or all of them, newest first. */
  list(notebook?: string): Promise<ISessionSummary[]>;

  /** Start a session and choose it for its notebook. */
  create(options: INewSession): Promise<ISessionDetail>;

  get(id: string): Promise<ISessionDetail>;
  patch(id: string, changes: ISessionChanges): Promise<ISessionDetail>;
  delete(id: string): Promise<void>;

  /** A session was deleted, here or elsewhere: show its notebook's next one. */
  forget(id: string): Promise<void>;

  /**
   * The session chosen for a notebook; `null` if it has none. `undefined` until `resolve` has
   * looked it up.
   */
  current(notebook: string): string | null | undefined;

  /** Look the session of a notebook up: the one chosen before, else the newest, else `null`. */
  resolve(notebook: string): Promise<string | null>;

  /** Choose a session for a notebook. The choice is remembered. */
  select(notebook: string, id: string | null): Promise<void>;

  /** The notebook was renamed: its sessions follow. */
  rename(from: string, to: string): Promise<void>;
}

export namespace ISessions {
  export interface IChange {
    readonly notebook: string;
    /** The session chosen now. */
    readonly current: string | null;
  }
}

export const ISessions = new Token<ISessions>(
  'prime_ext:ISessions',
  'The sessions of the Prime agent, and which one belongs to which notebook.'
);

/** Sessions in which the agent works or waits for a person, of whatever notebook. */
export interface IActiveSessions {
  /** The one written last first. */
  readonly sessions: readonly ISessionSummary[];
  /** Notebooks that agents in other processes work on. */
  readonly elsewhere: readonly INotebookInUse[];
  /** Ask the server now. */
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
 * One holder's view of a session's stream. The socket behind it is shared, reconnects by itself
 * and resumes after the last record: every record arrives once, in order. Should the server have
 * lost the end of its log in a crash, a `reset` frame comes and then all records anew.
 */
export interface ISessionStream extends IDisposable {
  readonly sessionId: string;

  /** A frame arrived. Frames from before this holder came are in `replay()`. */
  readonly frameReceived: ISignal<ISessionStream, ServerFrame>;

  /** The connection came or went. The argument is the new status. */
  readonly connectionChanged: ISignal<ISessionStream, ConnectionStatus>;

  readonly connected: boolean;

  /** `gone`: the session no longer exists on the server; no more attempts are made. */
  readonly status: ConnectionStatus;

  /** Resolves when all records there were have arrived for the first time. */
  readonly ready: Promise<void>;

  /**
   * The frames that bring a newcomer to now: all records, what was streamed of the message in
   * progress, and the last `ready` or `state`.
   */
  replay(): ServerFrame[];

  /**
   * Send a frame. `false`: not connected, the frame is dropped; the server asks again (or the
   * lease must be claimed again) once `connectionChanged` says `connected`.
   */
  send(frame: ClientFrame): boolean;

  /** Try to reconnect now instead of waiting for the next attempt. */
  reconnect(): void;
}

/** Streams by session, one socket for each however many hold it. */
export interface ISessionStreams {
  /** Hold the stream of a session. Dispose what is returned to let it go. */
  acquire(sessionId: string): ISessionStream;
}

export const ISessionStreams = new Token<ISessionStreams>(
  'prime_ext:ISessionStreams',
  'Live streams of the sessions of the Prime agent.'
);

/** Lets the agent's operations into the notebooks that are open in this page. */
export interface INotebookWriter {
  /**
   * Resolves once the server knows that this page has the notebook open: what the agent is asked
   * for before goes past it, into the file. Does not wait for ever for a server that is silent,
   * nor for a notebook that is not open here.
   *
   * Rejects, with a message for the person, where this page could not show what is changed.
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
  /** The session shown; `null` before the first message. */
  readonly sessionId: string | null;
  /** What the panel shows of it; `null` while there is nothing. */
  readonly conversation: IConversation | null;
  /** The panel can be seen: it is neither closed nor behind another one. */
  readonly isVisible: boolean;
  readonly changed: ISignal<IChatPanel, void>;

  /** What is being written. */
  readonly draft: string;

  /** Show the panel and put the cursor into the composer. */
  open(): void;

  /** Send a message as if the person had typed it; starts a session if there is none. */
  submit(text: string, attachments?: readonly IAttachment[]): Promise<void>;

  /**
   * Put text into the composer, for the person to edit and send.
   *
   * @param attachments - Go with it. Cells without `source` are read when the message is sent.
   */
  compose(text: string, attachments?: IAttachment[]): void;

  /** Attach to the message that is being written. */
  attach(...attachments: IAttachment[]): void;

  /** Stop what the agent is doing. */
  interrupt(): Promise<void>;
}

export const IChatPanel = new Token<IChatPanel>(
  'prime_ext:IChatPanel',
  'The side panel of the Prime agent.'
);
