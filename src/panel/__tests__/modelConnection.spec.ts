import { ApiError, PrimeApi } from '../../api/rest';
import { Log, replay } from '../../model/__tests__/records';
import { ModelConnection } from '../modelConnection';
import { PanelStore } from '../store';

describe('ModelConnection', () => {
  const key = { provider: 'anthropic', api_key: 'sk-1' };

  let api: Record<string, jest.Mock>;
  let store: PanelStore;
  let newSession: jest.Mock;
  let connection: ModelConnection;

  beforeEach(() => {
    api = {
      status: jest.fn(async () => ({ offline: false })),
      setCredentials: jest.fn(async () => ({ unchecked: null })),
      clearCredentials: jest.fn(async () => undefined)
    };
    store = new PanelStore(
      () => undefined,
      () => undefined
    );
    newSession = jest.fn(async () => undefined);
    connection = new ModelConnection(
      api as unknown as PrimeApi,
      store,
      newSession
    );
    const log = new Log();
    log.add('session_start', { notebook: 'a.ipynb', provider: 'offline' });
    store.conversation = replay(log.records);
  });

  it('starts a new session for a model that was connected', async () => {
    api.status.mockResolvedValueOnce({ offline: true });
    await connection.connect(key);
    expect(newSession).not.toHaveBeenCalled();
    await connection.connect(key);
    expect(newSession).toHaveBeenCalledTimes(1);
  });

  it('keeps a session that has a model', async () => {
    const log = new Log();
    log.add('session_start', { notebook: 'a.ipynb', provider: 'anthropic' });
    store.conversation = replay(log.records);
    await connection.connect(key);
    expect(newSession).not.toHaveBeenCalled();
  });

  it('returns why a key could not be checked', async () => {
    api.setCredentials.mockResolvedValueOnce({ unchecked: 'It is down.' });
    expect(await connection.connect(key)).toBe('It is down.');
    expect(newSession).toHaveBeenCalledTimes(1);
    expect(await connection.connect(key)).toBeNull();
  });

  it('throws if a key is refused', async () => {
    api.setCredentials.mockRejectedValueOnce(
      new ApiError(400, 'bad_credentials', 'Refused.')
    );
    await expect(connection.connect(key)).rejects.toThrow('Refused.');
    expect(newSession).not.toHaveBeenCalled();
    expect(store.state.failure).toBeNull();
  });

  it('queries the status after disconnecting', async () => {
    api.status.mockResolvedValueOnce({ offline: true });
    await connection.disconnect();
    expect(api.clearCredentials).toHaveBeenCalledTimes(1);
    expect(store.state.server?.offline).toBe(true);
  });

  it('reports that the server cannot be reached, until it can', async () => {
    api.status.mockRejectedValueOnce(
      new ApiError(0, 'server_unreachable', 'Down.')
    );
    await connection.refresh();
    expect(store.state.serverFailure?.code).toBe('server_unreachable');
    await connection.refresh();
    expect(store.state.serverFailure).toBeNull();
  });
});
