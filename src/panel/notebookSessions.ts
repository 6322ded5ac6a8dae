import { ISessionSummary, PrimeApi } from '../api/rest';
import { ISessions } from '../tokens';
import { IPanelState } from './state';
import { PanelStore } from './store';

/** The sessions of the current notebook: the actions that select, create or change a session. */
export class NotebookSessions {
  /** @param _shown - Called after another session was selected. */
  constructor(
    private readonly _api: PrimeApi,
    private readonly _sessions: ISessions,
    private readonly _store: PanelStore,
    private readonly _shown: () => void
  ) {}

  /** List the sessions of the current notebook, newest first. */
  async list(): Promise<ISessionSummary[]> {
    const { notebook } = this._state;
    return notebook === null ? [] : this._sessions.list(notebook);
  }

  /** List the sessions whose notebook no longer exists, most recently updated first. */
  withoutNotebook(): Promise<ISessionSummary[]> {
    return this._api.sessionsWithoutNotebook();
  }

  /** Start an empty conversation. Its session is created with the first message. */
  begin(): Promise<void> {
    return this._show(null);
  }

  select(id: string): Promise<void> {
    return this._show(id);
  }

  async rename(id: string, title: string): Promise<void> {
    await this._store.attempt(() => this._sessions.patch(id, { title }));
  }

  async delete(id: string): Promise<void> {
    await this._store.attempt(() => this._sessions.delete(id));
  }

  /** Attach a session to the current notebook, and select it. */
  async attach(id: string): Promise<void> {
    const { notebook } = this._state;
    if (notebook !== null) {
      await this._store.attempt(async () => {
        await this._sessions.patch(id, { notebook });
        // The current notebook may have changed meanwhile.
        await this._show(id, notebook);
      });
    }
  }

  private async _show(
    id: string | null,
    notebook = this._state.notebook
  ): Promise<void> {
    if (notebook !== null) {
      await this._sessions.select(notebook, id);
      this._shown();
    }
  }

  private get _state(): IPanelState {
    return this._store.state;
  }
}
