import { ApiError } from '../api/rest';
import { Conversation } from '../model/conversation';
import { EMPTY_STATE, failureOf, IPanelState } from './state';

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

  fail(reason: unknown): void {
    this.set({ failure: failureOf(reason) });
  }

  /** Run an action that may fail. A failure goes into the state, except for codes in `ignore`. */
  async attempt(
    action: () => Promise<unknown>,
    { ignore = [] }: { ignore?: string[] } = {}
  ): Promise<void> {
    try {
      await action();
    } catch (reason) {
      if (!(reason instanceof ApiError && ignore.includes(reason.code))) {
        this.fail(reason);
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
  private _scheduled = false;
}
