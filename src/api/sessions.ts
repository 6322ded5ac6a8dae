import { IStateDB } from '@jupyterlab/statedb';
import { ISignal, Signal } from '@lumino/signaling';

import { ISessions } from '../tokens';
import {
  INewSession,
  ISessionChanges,
  ISessionDetail,
  ISessionSummary,
  PrimeApi
} from './rest';

/**
 * Sessions over REST. The session selected for a notebook belongs to the workspace and is kept in
 * its state database.
 */
export class Sessions implements ISessions {
  constructor(
    private readonly _api: PrimeApi,
    private readonly _stateDB: IStateDB | null
  ) {}

  get changed(): ISignal<ISessions, ISessions.IChange> {
    return this._changed;
  }

  list(notebook?: string): Promise<ISessionSummary[]> {
    return this._api.sessions(notebook);
  }

  async create(options: INewSession): Promise<ISessionDetail> {
    const session = await this._api.createSession(options);
    await this.select(options.notebook, session.id);
    return session;
  }

  /**
   * Handle the start of a session, possibly by another page: select it if the notebook had no
   * session.
   */
  async started(notebook: string, id: string): Promise<void> {
    if (this._without.has(notebook)) {
      await this.select(notebook, id);
    }
  }

  get(id: string): Promise<ISessionDetail> {
    return this._api.session(id);
  }

  async patch(id: string, changes: ISessionChanges): Promise<ISessionDetail> {
    const session = await this._api.patchSession(id, changes);
    this._emit(session.notebook);
    return session;
  }

  async delete(id: string): Promise<void> {
    await this._api.deleteSession(id);
    await this.forget(id);
  }

  async forget(id: string): Promise<void> {
    for (const [notebook, current] of [...this._current]) {
      if (current === id) {
        this._current.delete(notebook);
        await this._stateDB?.remove(stateKey(notebook));
        await this.resolve(notebook);
      }
    }
  }

  current(notebook: string): string | null | undefined {
    return this._current.get(notebook);
  }

  resolve(notebook: string): Promise<string | null> {
    const known = this._current.get(notebook);
    if (known !== undefined) {
      return Promise.resolve(known);
    }
    // The panel and the notebook writer call this at the same time: they share one lookup.
    let pending = this._pending.get(notebook);
    if (!pending) {
      pending = this._lookUp(notebook).finally(() =>
        this._pending.delete(notebook)
      );
      this._pending.set(notebook, pending);
    }
    return pending;
  }

  async select(notebook: string, id: string | null): Promise<void> {
    if (this._current.get(notebook) === id) {
      return;
    }
    this._without.delete(notebook);
    this._current.set(notebook, id);
    this._emit(notebook);
    if (id === null) {
      await this._stateDB?.remove(stateKey(notebook));
    } else {
      await this._stateDB?.save(stateKey(notebook), id);
    }
  }

  rename(from: string, to: string): Promise<void> {
    // Every view of the notebook reports the rename, and so does the notebook writer.
    const key = JSON.stringify([from, to]);
    let pending = this._renaming.get(key);
    if (!pending) {
      pending = this._rename(from, to).finally(() =>
        this._renaming.delete(key)
      );
      this._renaming.set(key, pending);
    }
    return pending;
  }

  private async _rename(from: string, to: string): Promise<void> {
    const current = this._current.get(from);
    const sessions = await this._api.sessions(from);
    await Promise.all(
      sessions.map(({ id }) => this._api.patchSession(id, { notebook: to }))
    );
    this._current.delete(from);
    this._without.delete(from);
    const remembered = await this._stateDB?.fetch(stateKey(from));
    await this._stateDB?.remove(stateKey(from));
    if (current !== undefined) {
      await this.select(to, current);
      return;
    }
    // The look-up is still pending, or it failed.
    if (remembered !== undefined) {
      await this._stateDB?.save(stateKey(to), remembered);
    }
    await this.resolve(to);
  }

  private async _lookUp(notebook: string): Promise<string | null> {
    const [sessions, remembered] = await Promise.all([
      this._api.sessions(notebook),
      this._stateDB?.fetch(stateKey(notebook))
    ]);
    // A session that was created or selected meanwhile takes precedence.
    const chosen = this._current.get(notebook);
    if (chosen !== undefined) {
      return chosen;
    }
    const found =
      sessions.find(({ id }) => id === remembered) ?? sessions[0] ?? null;
    this._current.set(notebook, found?.id ?? null);
    if (!found) {
      this._without.add(notebook);
    }
    this._emit(notebook);
    return found?.id ?? null;
  }

  private _emit(notebook: string): void {
    this._changed.emit({
      notebook,
      current: this._current.get(notebook) ?? null
    });
  }

  private _current = new Map<string, string | null>();
  /** Notebooks that had no session when they were looked up. */
  private _without = new Set<string>();
  private _pending = new Map<string, Promise<string | null>>();
  private _renaming = new Map<string, Promise<void>>();
  private _changed = new Signal<ISessions, ISessions.IChange>(this);
}

function stateKey(notebook: string): string {
  return `prime_ext:session:${notebook}`;
}
