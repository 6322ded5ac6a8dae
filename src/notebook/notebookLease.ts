/**
 * The lease of this page on one open notebook, claimed over the stream of a session.
 */
import { DocumentRegistry } from '@jupyterlab/docregistry';
import { INotebookModel } from '@jupyterlab/notebook';
import { PromiseDelegate } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';

import { ServerFrame } from '../api/frames';
import { PAGE } from '../api/page';
import {
  ConnectionStatus,
  ISessions,
  ISessionStream,
  ISessionStreams
} from '../tokens';
import { IStanding, OpenNotebook } from './openNotebook';

/** Delay before a lease that the server has revoked is claimed again, in milliseconds. */
const RECLAIM_DELAY = 2000;

/** Delay before a page that is not the writer refreshes from disk again, in milliseconds. */
const REFRESH_DELAY = 300;

/**
 * Delay in milliseconds before the server is asked again about a version of the file that could not
 * be merged: the page that has saved it may not have said so yet.
 */
const BEHIND_DELAY = 2000;

export class NotebookLease implements IDisposable {
  constructor(
    private readonly _notebook: OpenNotebook,
    private readonly _sessions: ISessions,
    private readonly _streams: ISessionStreams
  ) {
    this._path = this.context.localPath;
    this.context.pathChanged.connect(this._onPathChanged, this);
    this._sessions.changed.connect(this._onSessionsChanged, this);
    this._notebook.versionChanged.connect(this._onVersionChanged, this);
    this.look();
  }

  get context(): DocumentRegistry.IContext<INotebookModel> {
    return this._notebook.context;
  }

  /** Whether this page is the writer of the notebook. */
  get held(): boolean {
    return this._held;
  }

  /** Resolves when the server has answered the claim, or if no claim can be made. */
  get answered(): Promise<void> {
    return this._answer.promise;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Look up the session of the notebook, and claim the lease over its stream. */
  look(): void {
    this._find()
      .catch(reason => {
        console.warn(`No session was found for ${this._path}.`, reason);
      })
      .finally(() => {
        if (this._stream === null) {
          this._answer.resolve();
        }
      });
  }

  /** Load changes that others have written to the file. */
  refresh(standing?: IStanding): void {
    this._notebook
      .refresh(standing)
      .then(() => this._checkBehind())
      .catch(reason => {
        console.warn(`${this._path} was not compared with the disk.`, reason);
      });
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this.context.pathChanged.disconnect(this._onPathChanged, this);
    this._sessions.changed.disconnect(this._onSessionsChanged, this);
    this._notebook.versionChanged.disconnect(this._onVersionChanged, this);
    window.clearTimeout(this._timer);
    window.clearTimeout(this._refreshTimer);
    window.clearTimeout(this._behindTimer);
    this._leaveFormer();
    if (this._stream !== null) {
      this._leave(this._stream);
      this._stream = null;
    }
    this._answer.resolve();
  }

  private async _find(): Promise<void> {
    const path = this._path;
    let id = (await this._sessions.resolve(path)) ?? null;
    if (id === null) {
      // None was selected here, but another page or program may have started one.
      const [newest] = await this._sessions.list(path);
      id = newest?.id ?? null;
    }
    if (!this._isDisposed && path === this._path) {
      this._follow(id);
    }
  }

  /** Claim the lease over the stream of this session from now on. */
  private _follow(id: string | null): void {
    if (id === null || id === this._stream?.sessionId) {
      return;
    }
    // Keep the former stream until the server has answered the new claim, so that there is no gap
    // without a lease in which the server would write the file itself.
    if (this._stream !== null) {
      this._former.push(this._stream);
    }
    this._held = false;
    this._stream = this._streams.acquire(id, { records: false });
    this._stream.frameReceived.connect(this._onFrame, this);
    this._stream.connectionChanged.connect(this._onConnectionChanged, this);
    if (this._stream.status !== 'disconnected') {
      this._answer.resolve();
      this._answer = new PromiseDelegate();
    }
    this._claim();
  }

  private _leaveFormer(): void {
    for (const stream of this._former.splice(0)) {
      this._leave(stream);
    }
  }

  private _leave(stream: ISessionStream): void {
    stream.frameReceived.disconnect(this._onFrame, this);
    stream.connectionChanged.disconnect(this._onConnectionChanged, this);
    stream.send({
      type: 'lease',
      action: 'release',
      notebook: this._path,
      client: PAGE
    });
    stream.dispose();
  }

  private _claim(): void {
    this._stream?.send({
      type: 'lease',
      action: 'claim',
      notebook: this._path,
      client: PAGE,
      version: this._notebook.version
    });
  }

  private _onConnectionChanged(
    stream: ISessionStream,
    status: ConnectionStatus
  ): void {
    if (stream !== this._stream) {
      return;
    }
    if (status === 'connected') {
      this._claim();
      return;
    }
    this._held = false;
    if (status !== 'connecting') {
      this._answer.resolve();
    }
    if (status === 'gone') {
      this._stream = null;
      stream.frameReceived.disconnect(this._onFrame, this);
      stream.connectionChanged.disconnect(this._onConnectionChanged, this);
      stream.dispose();
      // Otherwise the look-up would return the deleted session again.
      this._sessions
        .forget(stream.sessionId)
        .catch(reason => {
          console.warn(`No session was found for ${this._path}.`, reason);
        })
        .then(() => this.look())
        .catch(reason => {
          console.warn(reason);
        });
    }
  }

  private _onFrame(stream: ISessionStream, frame: ServerFrame): void {
    if (frame.type === 'lease') {
      if (stream === this._stream && frame.notebook === this._path) {
        this._leaveFormer();
        this._onLease(frame.held, frame);
      }
    } else if (frame.type === 'op' && this._isMine(frame.notebook)) {
      void this._notebook.apply(frame.op_id, frame.op).then(ack => {
        // If the acknowledgement is lost with the connection, the server resends the operation.
        stream.send(ack);
      });
    }
  }

  private _onLease(held: boolean, standing: IStanding): void {
    const lost = this._held && !held;
    this._held = held;
    this._answer.resolve();
    if (held) {
      // Others may have written the file before. Later operations wait for this refresh.
      this._standing = null;
      this.refresh(standing);
    } else if (lost) {
      // The page did not acknowledge in time, but it is still alive.
      window.clearTimeout(this._timer);
      this._timer = window.setTimeout(() => this._claim(), RECLAIM_DELAY);
    } else {
      this._refreshSoon(standing);
    }
  }

  /** Refresh at once, and from then on after a pause, since the writer saves often. */
  private _refreshSoon(standing: IStanding): void {
    if (this._refreshTimer !== 0) {
      this._standing = standing;
      return;
    }
    this.refresh(standing);
    this._refreshTimer = window.setTimeout(() => {
      this._refreshTimer = 0;
      const latest = this._standing;
      this._standing = null;
      if (latest && !this._held) {
        this._refreshSoon(latest);
      }
    }, REFRESH_DELAY);
  }

  /** Notify the user of a version of the file that still cannot be merged when asked again. */
  private _checkBehind(): void {
    const { behind } = this._notebook;
    if (behind === null || this._isDisposed) {
      this._asked = null;
      return;
    }
    if (behind === this._asked) {
      this._notebook.tellBehind();
      return;
    }
    window.clearTimeout(this._behindTimer);
    this._behindTimer = window.setTimeout(() => {
      this._asked = this._notebook.behind;
      if (this._asked !== null) {
        this._claim();
      }
    }, BEHIND_DELAY);
  }

  private _onVersionChanged(_: unknown, action: 'saved' | 'loaded'): void {
    const frame = {
      type: 'lease',
      action,
      notebook: this._path,
      client: PAGE,
      version: this._notebook.version
    } as const;
    // Until the new stream is connected, the lease is held over the former one.
    if (!this._stream?.send(frame)) {
      this._former.forEach(stream => stream.send(frame));
    }
  }

  private _onSessionsChanged(
    sender: ISessions,
    change: ISessions.IChange
  ): void {
    if (change.notebook === this._path) {
      this._follow(change.current);
    }
  }

  private _onPathChanged(): void {
    const from = this._path;
    const to = this.context.localPath;
    if (from === to) {
      return;
    }
    this._formerPaths.add(from);
    this._path = to;
    this._sessions
      .rename(from, to)
      .catch(reason => {
        console.warn(
          `The sessions of ${from} did not follow to ${to}.`,
          reason
        );
      })
      .then(() => {
        if (this._isDisposed || this._path !== to) {
          return;
        }
        this._claim();
        this._stream?.send({
          type: 'lease',
          action: 'release',
          notebook: from,
          client: PAGE
        });
      })
      .catch(reason => {
        console.warn(reason);
      });
  }

  /** Whether a path is the notebook's; operations may still carry a path from before a rename. */
  private _isMine(path: string): boolean {
    return path === this._path || this._formerPaths.has(path);
  }

  private _path: string;
  private _formerPaths = new Set<string>();
  private _stream: ISessionStream | null = null;
  private _former: ISessionStream[] = [];
  private _held = false;
  private _answer = new PromiseDelegate<void>();
  private _timer = 0;
  private _refreshTimer = 0;
  /** Latest standing, for the refresh after the pause. */
  private _standing: IStanding | null = null;
  private _behindTimer = 0;
  /** Version of the file about which the server was asked again. */
  private _asked: string | null = null;
  private _isDisposed = false;
}
