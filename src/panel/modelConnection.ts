import { PrimeApi } from '../api/rest';
import { failureOf } from './state';
import { PanelStore } from './store';

/** The server's connection to a model: what it is, and what a person changes in it. */
export class ModelConnection {
  /** @param _newSession - Begins an empty conversation. */
  constructor(
    private readonly _api: PrimeApi,
    private readonly _store: PanelStore,
    private readonly _newSession: () => Promise<void>
  ) {}

  /** Ask the server how things stand. */
  async refresh(): Promise<void> {
    try {
      const server = await this._api.status();
      this._store.set({ server, serverFailure: null });
    } catch (reason) {
      this._store.set({ serverFailure: failureOf(reason) });
    }
  }

  /**
   * Hand a key over to the server, which keeps it. A conversation with the offline agent stays
   * with it, so a new one is begun for the model.
   *
   * @returns Why the model's server could not be asked whether it takes the key.
   * @throws ApiError if it is refused.
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

  /** The models that can be chosen. */
  models(): ReturnType<PrimeApi['models']> {
    return this._api.models();
  }
}
