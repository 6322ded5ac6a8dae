import { ISessionSummary, PrimeApi } from '../api/rest';
import { ISessions } from '../tokens';
import { IPanelState } from './state';
import { PanelStore } from './store';

/** The sessions of the notebook on show: which one is, and what a person does with it as a whole. */
export class NotebookSessions {
  /** @param _shown - Called once a notebook has another session. */
  constructor(
    private readonly _api: PrimeApi,
    private readonly _sessions: ISessions,
    private readonly _store: PanelStore,
    private readonly _shown: () => void
  ) {}

  /** Newest first. */
  async list(): Promise<ISessionSummary[]> {
    const { notebook } = this._state;
    return notebook === null ? [] : this._sessions.list(notebook);
  }

  /** Sessions that have lost their notebook, the one written last first. */
  withoutNotebook(): Promise<ISessionSummary[]> {
    return this._api.sessionsWithoutNotebook();
  }

  /** An empty conversation; the session is made with its first message. */
  begin(): Promise<void> {
    return this._show(null);
  }

  select(id: string): Promise<void> {
    return this._show(id);
  }

  async rename(title: string): Promise<void> {
    const id = this._state.sessionId;
    if (id) {
      await this._store.attempt(() => this._sessions.patch(id, { title }));
    }
  }

  async delete(): Promise<void> {
    const id = this._state.sessionId;
    if (id) {
      await this._store.attempt(() => this._sessions.delete(id));
    }
  }

  /** Go on with a session in the notebook on show, to which its own was moved. */
  async attach(id: string): Promise<void> {
    const { notebook } = this._state;
    if (notebook !== null) {
      await this._store.attempt(async () => {
        await this._sessions.patch(id, { notebook });
        // Another notebook may be on show by now.
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
