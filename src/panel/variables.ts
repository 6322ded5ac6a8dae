import { ApiError, PrimeApi, RestoreMode } from '../api/rest';
import { ISessions } from '../tokens';
import { PanelStore } from './store';

/** The actions of the user on the saved variables of the current session. */
export class Variables {
  /** @param _nothingSaved - Error message if there is no snapshot. */
  constructor(
    private readonly _api: PrimeApi,
    private readonly _sessions: ISessions,
    private readonly _store: PanelStore,
    private readonly _nothingSaved: string
  ) {}

  /**
   * Restore a snapshot, by default the newest that contains variables. Variables that were changed
   * since are kept.
   */
  async restore(snapshotId?: string): Promise<void> {
    const id = this._store.state.sessionId;
    if (!id) {
      return;
    }
    await this._store.attempt(async () => {
      const found = snapshotId ?? (await this._newest(id));
      if (found === undefined) {
        throw new ApiError(404, 'nothing_saved', this._nothingSaved);
      }
      await this._api.restore(id, found);
    });
  }

  /** Return the id of the newest snapshot that contains variables, else of the newest. */
  private async _newest(id: string): Promise<string | undefined> {
    const snapshots = await this._api.snapshots(id);
    const full = snapshots.find(({ names }) => Object.keys(names).length > 0);
    return (full ?? snapshots[0])?.id;
  }

  /**
   * Load one variable that a restore has skipped as risky or slow. Resolves when the variable was
   * loaded, loading failed or it was cancelled.
   */
  async load(name: string, snapshotId: string): Promise<void> {
    const id = this._store.state.sessionId;
    if (id) {
      await this._store.attempt(() =>
        this._api.restore(id, snapshotId, [name])
      );
    }
  }

  /** Cancel a pending `load`. */
  async giveUp(snapshotId: string): Promise<void> {
    const id = this._store.state.sessionId;
    if (id) {
      await this._store.attempt(() => this._api.giveUpRestore(id, snapshotId));
    }
  }

  /** Switch saving of the notebook's variables on, or off, which deletes the snapshots. */
  async setSaved(saved: boolean): Promise<void> {
    const id = this._store.state.sessionId;
    if (id) {
      await this._store.attempt(() =>
        this._sessions.patch(id, { snapshots: saved })
      );
    }
  }

  /** Return the size in bytes of the current session's snapshots on the server. */
  async savedBytes(): Promise<number> {
    const id = this._store.state.sessionId;
    return id ? (await this._sessions.get(id)).snapshots.bytes : 0;
  }

  /**
   * Set when variables are restored automatically; `null` for the server's default. The mode is
   * stored in the session, because the server also restores while no page is open.
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

  /** Restore mode for new sessions. */
  get restoreMode(): RestoreMode | null {
    return this._restoreMode;
  }

  /** Set the restore mode of the current session, if it has another one. */
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
      // The session was deleted or is open in another server, which the panel shows already.
      if (!(reason instanceof ApiError)) {
        throw reason;
      }
    }
  }

  private _restoreMode: RestoreMode | null = null;
}
