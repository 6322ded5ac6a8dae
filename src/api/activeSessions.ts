import { IDisposable } from '@lumino/disposable';
import { IPoll, Poll } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';

import { IActiveSessions } from '../tokens';
import {
  IAgentsAtWork,
  INotebookInUse,
  ISessionSummary,
  PrimeApi
} from './rest';

/** Poll interval in milliseconds. Server events trigger refreshes; polling covers missed events. */
const INTERVAL = 60_000;
const LONGEST_INTERVAL = 300_000;

/** Queries the server on `refresh` and at intervals, but does not poll while the page is hidden. */
export class ActiveSessions implements IActiveSessions, IDisposable {
  constructor(api: PrimeApi) {
    this._poll = new Poll({
      name: 'prime_ext:active-sessions',
      factory: () => api.agentsAtWork(),
      frequency: { interval: INTERVAL, backoff: true, max: LONGEST_INTERVAL },
      linger: 0,
      standby: 'when-hidden'
    });
    this._poll.ticked.connect(this._onTick, this);
    document.addEventListener('visibilitychange', this._onVisible);
  }

  get sessions(): readonly ISessionSummary[] {
    return this._atWork.sessions;
  }

  get elsewhere(): readonly INotebookInUse[] {
    return this._atWork.elsewhere;
  }

  get changed(): ISignal<IActiveSessions, void> {
    return this._changed;
  }

  /** Query the server now. The response to a request that is still pending is discarded. */
  refresh(): void {
    // `Poll.refresh` would do nothing while a refresh is pending.
    void this._poll.schedule({ interval: Poll.IMMEDIATE, phase: 'refreshed' });
  }

  get isDisposed(): boolean {
    return this._poll.isDisposed;
  }

  dispose(): void {
    document.removeEventListener('visibilitychange', this._onVisible);
    this._poll.dispose();
    Signal.clearData(this);
  }

  private _onTick(
    _: unknown,
    { phase, payload }: IPoll.State<IAgentsAtWork, unknown, any>
  ): void {
    if (phase !== 'resolved' && phase !== 'reconnected') {
      return;
    }
    const atWork = payload as IAgentsAtWork;
    if (JSON.stringify(atWork) !== JSON.stringify(this._atWork)) {
      this._atWork = atWork;
      this._changed.emit();
    }
  }

  private readonly _onVisible = (): void => {
    if (!document.hidden) {
      this.refresh();
    }
  };

  private _poll: Poll<IAgentsAtWork, unknown>;
  private _atWork: IAgentsAtWork = { sessions: [], elsewhere: [] };
  private _changed = new Signal<IActiveSessions, void>(this);
}
