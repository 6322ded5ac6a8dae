import { Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';

import { ISessionSummary } from '../../api/rest';
import { DecisionNotices } from '../notifications';

/** A session that waits for an answer to `question`, or is working. */
function session(id: string, question?: string): ISessionSummary {
  return {
    id,
    notebook: `work/${id}.ipynb`,
    approvals: question ? [{ call_id: question, summary: question }] : []
  } as unknown as ISessionSummary;
}

describe('DecisionNotices', () => {
  let active: { sessions: ISessionSummary[] };
  let panel: { sessionId: string | null; isVisible: boolean };
  let isOn: boolean;
  let show: jest.Mock;
  let notices: DecisionNotices;

  function told(...sessions: ISessionSummary[]): string[] {
    active.sessions = sessions;
    notices.update();
    return Notification.manager.notifications.map(({ message }) => message);
  }

  beforeEach(() => {
    Notification.dismiss();
    active = { sessions: [] };
    panel = { sessionId: 'front', isVisible: true };
    isOn = true;
    show = jest.fn();
    notices = new DecisionNotices({
      active,
      panel,
      isOn: () => isOn,
      show,
      trans: nullTranslator.load('prime_ext')
    });
  });

  it('are shown for each waiting session that is not visible, and lead to it', () => {
    expect(
      told(session('front', 'Run it'), session('b', 'Edit'), session('c'))
    ).toEqual(['The agent in b.ipynb needs your decision: Edit']);
    const [notice] = Notification.manager.notifications;
    expect(notice.options.autoClose).toBe(false);
    notice.options.actions![0].callback(new MouseEvent('click'));
    expect(show).toHaveBeenCalledWith('b');
  });

  it('are dismissed when the request was answered, and shown for the next one', () => {
    told(session('b', 'Edit'), session('c', 'Run'));
    expect(told(session('b', 'Delete'), session('c'))).toEqual([
      'The agent in b.ipynb needs your decision: Delete'
    ]);
    expect(told()).toEqual([]);
  });

  it('are shown for the current session only while the panel is hidden', () => {
    panel.isVisible = false;
    expect(told(session('front', 'Run'))).toHaveLength(1);
    panel.isVisible = true;
    expect(told(session('front', 'Run'))).toEqual([]);
    panel.sessionId = null; // its notebook was closed
    expect(told(session('front', 'Run'))).toHaveLength(1);
  });

  it('are not repeated after they were dismissed', () => {
    told(session('b', 'Edit'));
    Notification.dismiss();
    expect(told(session('b', 'Edit'))).toEqual([]);
    panel.sessionId = 'b';
    expect(told(session('b', 'Edit'))).toEqual([]);
    panel.sessionId = 'front';
    expect(told(session('b', 'Edit'))).toEqual([]);
    expect(told(session('b', 'Run'))).toHaveLength(1);
  });

  it('are not shown if they are switched off', () => {
    isOn = false;
    expect(told(session('b', 'Edit'))).toEqual([]);
    isOn = true;
    expect(told(session('b', 'Edit'))).toHaveLength(1);
    isOn = false;
    expect(told(session('b', 'Edit'))).toEqual([]);
  });
});
