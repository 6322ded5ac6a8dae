import { ApiError, PrimeApi, RestoreMode } from '../api/rest';
import { ISessions } from '../tokens';
import { PanelStore } from './store';

/** What a person does about the kernel's saved variables, for the session on show. */
export class Variables {
  /** @param _nothingSaved - Said where there is nothing to restore. */
  constructor(
    private readonly _api: PrimeApi,
    private readonly _sessions: ISessions,
    private readonly _store: PanelStore,
    private readonly _nothingSaved: string
  ) {}

  /** Bring back a snapshot; the newest one if none is named. What was changed since stays. */
  async restore(snapshotId?: string): Promise<void> {
    const id = this._store.state.sessionId;
    if (!id) {
      return;
    }
    await this._store.attempt(async () => {
      const found = snapshotId ?? (await this._api.snapshots(id))[0]?.id;
      if (found === undefined) {
        throw new ApiError(404, 'nothing_saved', this._nothingSaved);
      }
      await this._api.restore(id, found);
    });
  }

  /**
   * Bring back one variable that a restore has left out for what loading it may do; ends when it
   * is loaded, has failed or was given up.
   */
  async load(name: string, snapshotId: string): Promise<void> {
    const id = this._store.state.sessionId;
    if (id) {
      await this._store.attempt(() =>
        this._api.restore(id, snapshotId, [name])
      );
    }
  }

  /** End what `load` waits for. */
  async giveUp(snapshotId: string): Promise<void> {
    const id = this._store.state.sessionId;
    if (id) {
      await this._store.attempt(() => this._api.giveUpRestore(id, snapshotId));
    }
  }

  /** Save the notebook's variables, or no longer, and then delete what was saved. */
  async setSaved(saved: boolean): Promise<void> {
    const id = this._store.state.sessionId;
    if (id) {
      await this._store.attempt(() =>
        this._sessions.patch(id, { snapshots: saved })
      );
    }
  }

  /** Bytes that are kept on the server for the session on show. */
  async savedBytes(): Promise<number> {
    const id = this._store.state.sessionId;
    return id ? (await this._sessions.get(id)).snapshots.bytes : 0;
  }

  /**
   * When variables come back by themselves, as this person wants it; `null` leaves it to the
   * server. It is a property of the session, since the server acts while nobody looks.
   */
  setRestoreMode(mode: RestoreMode | null): void {
    const before = this._restoreMode;
    this._restoreMode = mode;
    if (mode !== before) {
      void this.applyRestoreMode(
        mode ?? this._store.state.server?.snapshots?.restore ?? null
      );
    }
  }

  /** For a session that is made. */
  get restoreMode(): RestoreMode | null {
    return this._restoreMode;
  }

  /** Tell the server, if the session on show has another mode. */
  async applyRestoreMode(mode = this._restoreMode): Promise<void> {
    const id = this._store.state.sessionId;
    if (!id || mode === null) {
      return;
    }
    try {
      const { snapshots } = await this._sessions.get(id);
      if (snapshots.restore !== mode) {
        await this._sessions.patch(id, { restore: mode });
      }
    } catch (reason) {
      // The session was deleted, or is open in another server: the panel says so already.
      if (!(reason instanceof ApiError)) {
        throw reason;
      }
    }
  }

  private _restoreMode: RestoreMode | null = null;
}
