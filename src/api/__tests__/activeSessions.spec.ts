import { ActiveSessions } from '../activeSessions';
import { IAgentsAtWork, PrimeApi } from '../rest';

/** A fake API whose responses the test resolves. */
class FakeApi {
  asked: ((sessions: string[]) => void)[] = [];

  agentsAtWork(): Promise<IAgentsAtWork> {
    return new Promise(resolve => {
      this.asked.push(ids =>
        resolve({ sessions: ids.map(id => ({ id }) as any), elsewhere: [] })
      );
    });
  }
}

describe('ActiveSessions', () => {
  let api: FakeApi;
  let active: ActiveSessions;
  let changes: number;

  /** Run what is due now. */
  const due = (): Promise<void> => jest.advanceTimersByTimeAsync(10);

  async function answer(index: number, ...ids: string[]): Promise<void> {
    api.asked[index](ids);
    await due();
  }

  function hide(hidden: boolean): void {
    jest.spyOn(document, 'hidden', 'get').mockReturnValue(hidden);
    jest
      .spyOn(document, 'visibilityState', 'get')
      .mockReturnValue(hidden ? 'hidden' : 'visible');
    document.dispatchEvent(new Event('visibilitychange'));
  }

  beforeEach(async () => {
    jest.useFakeTimers();
    api = new FakeApi();
    active = new ActiveSessions(api as unknown as PrimeApi);
    changes = 0;
    active.changed.connect(() => {
      changes += 1;
    });
    await due();
  });

  afterEach(() => {
    active.dispose();
    jest.restoreAllMocks();
    jest.useRealTimers();
  });

  it('queries at the start and on refresh, and emits changes', async () => {
    await answer(0, 'a');
    expect(active.sessions).toEqual([{ id: 'a' }]);
    active.refresh();
    await due();
    await answer(1, 'a');
    expect(changes).toBe(1);
    active.refresh();
    await due();
    await answer(2);
    expect(active.sessions).toEqual([]);
    expect(changes).toBe(2);
  });

  it('ignores a response that a later query has superseded', async () => {
    active.refresh();
    await due();
    active.refresh();
    await due();
    await answer(2, 'new');
    await answer(1, 'old');
    await answer(0, 'older');
    expect(active.sessions).toEqual([{ id: 'new' }]);
  });

  it('does not query while the page is hidden, and queries when it is shown', async () => {
    await answer(0);
    hide(true);
    active.refresh();
    await jest.advanceTimersByTimeAsync(600_000);
    expect(api.asked).toHaveLength(1);
    hide(false);
    await due();
    expect(api.asked).toHaveLength(2);
  });

  it('polls, in case it missed an event', async () => {
    await answer(0);
    await jest.advanceTimersByTimeAsync(59_900);
    expect(api.asked).toHaveLength(1);
    await jest.advanceTimersByTimeAsync(1_000);
    expect(api.asked).toHaveLength(2);
  });
});
