import { nullTranslator } from '@jupyterlab/translation';
import { MessageLoop } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { ISessionSummary } from '../../api/rest';
import { Conversation } from '../../model/conversation';
import { IActiveSessions, IChatPanel } from '../../tokens';
import { StatusItem } from '../statusItem';

function session(id: string, asks = false): ISessionSummary {
  return {
    id,
    notebook: `work/${id}.ipynb`,
    approvals: asks ? [{ call_id: 'c', summary: 'Run' }] : []
  } as unknown as ISessionSummary;
}

describe('StatusItem', () => {
  let panel: any;
  let active: any;
  let show: jest.Mock;
  let item: StatusItem;

  async function activate(...sessions: ISessionSummary[]): Promise<void> {
    active.sessions = sessions;
    active.changed.emit();
    MessageLoop.flush();
    await item.renderPromise;
  }

  const button = (): HTMLElement => item.node.querySelector('[role=button]')!;

  beforeEach(() => {
    panel = { sessionId: null, conversation: null, open: jest.fn() };
    panel.changed = new Signal(panel);
    active = { sessions: [] };
    active.changed = new Signal(active);
    show = jest.fn();
    item = new StatusItem(
      panel as IChatPanel,
      active as IActiveSessions,
      show,
      nullTranslator.load('prime_ext')
    );
    Widget.attach(item, document.body);
  });

  afterEach(() => item.dispose());

  it('is active for other sessions, and counts them', async () => {
    expect(item.isActive).toBe(false);
    await activate(session('a', true), session('b'), session('c', true));
    expect(item.isActive).toBe(true);
    expect(item.node.textContent).toBe('Prime: 2 wait for you · 1 works');
    expect(button().title.split('\n')).toEqual([
      'a.ipynb: Needs your decision',
      'b.ipynb: Working…',
      'c.ipynb: Needs your decision'
    ]);
    panel.sessionId = 'a';
    await activate(session('a', true), session('b'));
    expect(item.node.textContent).toBe('Prime: 0% · 1 works');
    await activate();
    expect(item.node.textContent).toBe('Prime: 0%');
  });

  it('says what the agent does in the words of the panel', async () => {
    panel.sessionId = 'a';
    const activity = { running: true, phase: 'model' };
    const conversation = { ...new Conversation().snapshot(), activity };
    panel.conversation = conversation;
    panel.changed.emit();
    await activate();
    expect(item.node.textContent).toBe('Prime: Thinking…');
    panel.conversation = {
      ...conversation,
      items: [{ kind: 'text', streaming: true }]
    };
    panel.changed.emit();
    await activate();
    expect(item.node.textContent).toBe('Prime: Writing…');
  });

  it('shows a waiting session, unless the current one is waiting', async () => {
    panel.sessionId = 'a';
    await activate(session('b'), session('c', true));
    button().click();
    expect(show).toHaveBeenCalledWith('c');
    expect(panel.open).not.toHaveBeenCalled();
    panel.conversation = {
      items: [],
      activity: { running: true, phase: 'approval' }
    };
    panel.changed.emit();
    button().click();
    expect(panel.open).toHaveBeenCalledTimes(1);
    panel.conversation = null;
    await activate(session('b'));
    button().click();
    expect(panel.open).toHaveBeenCalledTimes(2);
    expect(show).toHaveBeenCalledTimes(1);
  });
});
