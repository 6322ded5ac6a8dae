import { StateDB } from '@jupyterlab/statedb';

import { ISessions } from '../../tokens';
import { ISessionSummary, PrimeApi } from '../rest';
import { Sessions } from '../sessions';

/** A fake server; lists the newest session first. */
class FakeApi {
  sessionsOf: Record<string, string[]> = {};
  asked = 0;

  async sessions(notebook = ''): Promise<ISessionSummary[]> {
    this.asked += 1;
    return (this.sessionsOf[notebook] ?? []).map(id => this._summary(id));
  }

  async createSession({ notebook }: { notebook: string }): Promise<any> {
    const id = `new-${notebook}`;
    this.sessionsOf[notebook] = [id, ...(this.sessionsOf[notebook] ?? [])];
    return this._summary(id, notebook);
  }

  async patchSession(id: string, changes: any): Promise<any> {
    for (const ids of Object.values(this.sessionsOf)) {
      const index = ids.indexOf(id);
      if (index >= 0) {
        ids.splice(index, 1);
      }
    }
    this.sessionsOf[changes.notebook] = [
      ...(this.sessionsOf[changes.notebook] ?? []),
      id
    ];
    return this._summary(id, changes.notebook);
  }

  async deleteSession(id: string): Promise<void> {
    for (const [notebook, ids] of Object.entries(this.sessionsOf)) {
      this.sessionsOf[notebook] = ids.filter(other => other !== id);
    }
  }

  private _summary(id: string, notebook = ''): any {
    return { id, notebook, title: null };
  }
}

describe('Sessions', () => {
  let api: FakeApi;
  let stateDB: StateDB;
  let sessions: Sessions;
  let changes: ISessions.IChange[];

  function make(): Sessions {
    const made = new Sessions(api as unknown as PrimeApi, stateDB);
    changes = [];
    made.changed.connect((_, change) => {
      changes.push(change);
    });
    return made;
  }

  beforeEach(() => {
    api = new FakeApi();
    api.sessionsOf = { 'a.ipynb': ['newest', 'older'] };
    stateDB = new StateDB();
    sessions = make();
  });

  it('selects the newest session of a notebook, with one query', async () => {
    expect(sessions.current('a.ipynb')).toBeUndefined();
    await Promise.all([
      sessions.resolve('a.ipynb'),
      sessions.resolve('a.ipynb')
    ]);
    await sessions.resolve('a.ipynb');
    expect(sessions.current('a.ipynb')).toBe('newest');
    expect(api.asked).toBe(1);
    expect(changes).toEqual([{ notebook: 'a.ipynb', current: 'newest' }]);
  });

  it('knows that a notebook has no session', async () => {
    await expect(sessions.resolve('b.ipynb')).resolves.toBeNull();
    expect(sessions.current('b.ipynb')).toBeNull();
  });

  it('remembers the selection after a reload', async () => {
    await sessions.select('a.ipynb', 'older');
    await expect(make().resolve('a.ipynb')).resolves.toBe('older');
  });

  it('falls back when the remembered session is gone', async () => {
    await sessions.select('a.ipynb', 'deleted elsewhere');
    await expect(make().resolve('a.ipynb')).resolves.toBe('newest');
  });

  it('selects a session that was started elsewhere if there was none', async () => {
    await sessions.started('a.ipynb', 'not looked for yet');
    await sessions.resolve('a.ipynb');
    await sessions.started('a.ipynb', 'one more');
    expect(sessions.current('a.ipynb')).toBe('newest');

    await sessions.resolve('b.ipynb');
    await sessions.started('b.ipynb', 'elsewhere');
    expect(sessions.current('b.ipynb')).toBe('elsewhere');

    // The user wants a new session.
    await sessions.select('b.ipynb', null);
    await sessions.started('b.ipynb', 'elsewhere again');
    expect(sessions.current('b.ipynb')).toBeNull();
  });

  it('selects a session that was created', async () => {
    const { id } = await sessions.create({ notebook: 'b.ipynb' });
    expect(sessions.current('b.ipynb')).toBe(id);
    expect(changes).toEqual([{ notebook: 'b.ipynb', current: id }]);
  });

  it('prefers a selection made during the look-up', async () => {
    const looking = sessions.resolve('a.ipynb');
    await sessions.select('a.ipynb', 'older');
    await expect(looking).resolves.toBe('older');
    expect(sessions.current('a.ipynb')).toBe('older');
  });

  it('selects the next session when the current one is deleted', async () => {
    await sessions.resolve('a.ipynb');
    await sessions.delete('newest');
    expect(sessions.current('a.ipynb')).toBe('older');
    await sessions.delete('older');
    expect(sessions.current('a.ipynb')).toBeNull();
  });

  it('keeps the session of a renamed notebook', async () => {
    await sessions.select('a.ipynb', 'older');
    const patch = jest.spyOn(api, 'patchSession');
    await Promise.all([
      sessions.rename('a.ipynb', 'b.ipynb'),
      sessions.rename('a.ipynb', 'b.ipynb')
    ]);
    expect(patch).toHaveBeenCalledTimes(2); // Once for each session.
    expect(sessions.current('b.ipynb')).toBe('older');
    expect(sessions.current('a.ipynb')).toBeUndefined();
    expect(api.sessionsOf['b.ipynb'].sort()).toEqual(['newest', 'older']);
    await expect(make().resolve('b.ipynb')).resolves.toBe('older');
  });

  it('keeps the session of a notebook that is renamed before the look-up', async () => {
    await sessions.select('a.ipynb', 'older');
    sessions = make();
    await sessions.rename('a.ipynb', 'b.ipynb');
    expect(sessions.current('b.ipynb')).toBe('older');
  });
});
