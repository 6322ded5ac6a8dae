import { ApiError } from '../api/rest';
import { Conversation } from '../model/conversation';
import { EMPTY_STATE, failureOf, IFailure, IPanelState } from './state';

/** Holds the panel's state and notifies about its changes. */
export class PanelStore {
  /**
   * @param _schedule - Schedules a callback to run once, soon.
   * @param _changed - Called after changes, at most once for each scheduled run.
   */
  constructor(
    private readonly _schedule: (callback: () => void) => void,
    private readonly _changed: () => void
  ) {}

  /** The conversation from which `snapshot` updates the state. */
  conversation: Conversation | null = null;

  /**
   * The state as last set, with the conversation of the last snapshot. Use it for work that is done
   * for each frame, since a snapshot copies the items of a long session.
   */
  get state(): IPanelState {
    return this._state;
  }

  /** Return the current state. The object is reused until something changes. */
  snapshot(): IPanelState {
    const conversation = this.conversation?.snapshot() ?? null;
    if (conversation !== this._state.conversation) {
      this._state = { ...this._state, conversation };
    }
    return this._state;
  }

  set(changes: Partial<IPanelState>): void {
    this._state = { ...this._state, ...changes };
    this.changedLater();
  }

  /** What an action of the user is about: the id of the session, else the path of the notebook. */
  get place(): string {
    return this._state.sessionId || this._state.notebook || '';
  }

  /** Show a failure at its place: now, or once the panel shows that again. */
  fail(reason: unknown, place: string): void {
    const failure = failureOf(reason);
    if (place === this.place) {
      this.set({ failure });
    } else {
      this._failures.set(place, failure);
    }
  }

  /** Show a session, and the failure that belongs to it; `undefined` while it is looked up. */
  setSession(sessionId: string | null | undefined): void {
    this.set({ sessionId, stopping: false, failure: null });
    if (sessionId !== undefined) {
      this.set({ failure: this._failures.get(this.place) ?? null });
      this._failures.delete(this.place);
    }
  }

  /**
   * Run an action that may fail. A failure is shown where the action was started, or at `place`;
   * codes in `ignore` are not.
   */
  async attempt(
    action: () => Promise<unknown>,
    {
      ignore = [],
      place = this.place
    }: { ignore?: string[]; place?: string } = {}
  ): Promise<void> {
    try {
      await action();
    } catch (reason) {
      if (!(reason instanceof ApiError && ignore.includes(reason.code))) {
        this.fail(reason, place);
      }
    }
  }

  /** Schedule one notification for many changes. */
  changedLater(): void {
    if (this._scheduled) {
      return;
    }
    this._scheduled = true;
    this._schedule(() => {
      this._scheduled = false;
      this._changed();
    });
  }

  /** Notify at once, for changes that must be rendered within the current event. */
  changedNow(): void {
    this._changed();
  }

  private _state: IPanelState = EMPTY_STATE;
  /** Failures to show later, by place. */
  private _failures = new Map<string, IFailure>();
  private _scheduled = false;
}
