import { ApiError, PrimeApi } from '../../api/rest';
import { ISessions } from '../../tokens';
import { NotebookSessions } from '../notebookSessions';
import { PanelStore } from '../store';

describe('NotebookSessions', () => {
  let lab: Record<string, jest.Mock>;
  let store: PanelStore;
  let shown: jest.Mock;
  let sessions: NotebookSessions;

  beforeEach(() => {
    lab = {
      list: jest.fn(async () => [{ id: 's1' }]),
      select: jest.fn(async () => undefined),
      patch: jest.fn(async () => ({})),
      delete: jest.fn(async () => undefined)
    };
    store = new PanelStore(
      () => undefined,
      () => undefined
    );
    store.set({ notebook: 'a.ipynb', sessionId: 's1' });
    shown = jest.fn();
    sessions = new NotebookSessions(
      {} as PrimeApi,
      lab as unknown as ISessions,
      store,
      shown
    );
  });

  it('are empty without a notebook', async () => {
    expect(await sessions.list()).toEqual([{ id: 's1' }]);
    store.set({ notebook: null });
    expect(await sessions.list()).toEqual([]);
    await sessions.begin();
    await sessions.attach('lost');
    expect(lab.select).not.toHaveBeenCalled();
    expect(lab.patch).not.toHaveBeenCalled();
    expect(shown).not.toHaveBeenCalled();
  });

  it('attach a session to the notebook it was chosen for, whichever is shown by then', async () => {
    lab.patch.mockImplementationOnce(async () => {
      store.set({ notebook: 'b.ipynb' });
      return {};
    });
    await sessions.attach('lost');
    expect(lab.patch).toHaveBeenCalledWith('lost', { notebook: 'a.ipynb' });
    expect(lab.select).toHaveBeenCalledWith('a.ipynb', 'lost');
  });

  it('do not change if a session cannot be attached', async () => {
    lab.patch.mockRejectedValueOnce(
      new ApiError(409, 'session_elsewhere', 'Open elsewhere.')
    );
    await sessions.attach('lost');
    expect(lab.select).not.toHaveBeenCalled();
    expect(store.state.failure?.code).toBe('session_elsewhere');
  });

  it('are renamed and deleted whichever the panel shows by then', async () => {
    store.set({ sessionId: 's2' });
    const title = 'penguins';
    await sessions.rename('s1', title);
    expect(lab.patch).toHaveBeenCalledWith('s1', { title });
    await sessions.delete('s1');
    expect(lab.delete.mock.calls).toEqual([['s1']]);
  });
});
