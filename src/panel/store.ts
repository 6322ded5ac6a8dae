import { ApiError } from '../api/rest';
import { Conversation } from '../model/conversation';
import { EMPTY_STATE, failureOf, IPanelState } from './state';

/** The panel's state, and word of its changes. */
export class PanelStore {
  /**
   * @param _schedule - Runs a callback once, soon.
   * @param _changed - Called after changes, at most once for each scheduled run.
   */
  constructor(
    private readonly _schedule: (callback: () => void) => void,
    private readonly _changed: () => void
  ) {}

  /** What `snapshot` takes the state's conversation from. */
  conversation: Conversation | null = null;

  /**
   * As it was last set, with the conversation of the last snapshot. For what happens with each
   * frame: a snapshot would copy a long session once for each record.
   */
  get state(): IPanelState {
    return this._state;
  }

  /** The state now. The same object until something changes. */
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

  /** Do what may be refused; the state says why, except for codes to `ignore`. */
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

  /** Many frames of a stream make one repaint. */
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

  /** For what has to be painted with the event behind it. */
  changedNow(): void {
    this._changed();
  }

  private _state: IPanelState = EMPTY_STATE;
  private _scheduled = false;
}
