import { PrimeApi } from '../api/rest';
import { failureOf } from './state';
import { PanelStore } from './store';

/** The server's connection to a model: its status, and the actions of the user on it. */
export class ModelConnection {
  /** @param _newSession - Starts an empty conversation. */
  constructor(
    private readonly _api: PrimeApi,
    private readonly _store: PanelStore,
    private readonly _newSession: () => Promise<void>
  ) {}

  /** Query the server's status. */
  async refresh(): Promise<void> {
    try {
      const server = await this._api.status();
      this._store.set({ server, serverFailure: null });
    } catch (reason) {
      this._store.set({ serverFailure: failureOf(reason) });
    }
  }

  /**
   * Store an API key on the server. A conversation with the offline agent stays with it, so
   * a new one is started for the model.
   *
   * @returns Why the key could not be checked with the model API; `null` if it was checked.
   * @throws ApiError if the key is rejected.
   */
  async connect(options: {
    provider: string;
    api_key?: string;
    base_url?: string;
  }): Promise<string | null> {
    const { unchecked } = await this._api.setCredentials(options);
    await this.refresh();
    const { conversation, server } = this._store.snapshot();
    if (conversation?.provider === 'offline' && server?.offline === false) {
      await this._newSession();
    }
    return unchecked;
  }

  async disconnect(): Promise<void> {
    await this._store.attempt(() => this._api.clearCredentials());
    await this.refresh();
  }

  /** List the available models. */
  models(): ReturnType<PrimeApi['models']> {
    return this._api.models();
  }
}
