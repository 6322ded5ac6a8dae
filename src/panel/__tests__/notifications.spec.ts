import { Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';

import { ISessionSummary } from '../../api/rest';
import { DecisionNotices } from '../notifications';

/** A session that asks `question`, or works. */
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

  it('tells of each notebook that waits out of sight, and leads to it', () => {
    expect(
      told(session('front', 'Run it'), session('b', 'Edit'), session('c'))
    ).toEqual(['The agent in b.ipynb needs your decision: Edit']);
    const [notice] = Notification.manager.notifications;
    expect(notice.options.autoClose).toBe(false);
    notice.options.actions![0].callback(new MouseEvent('click'));
    expect(show).toHaveBeenCalledWith('b');
  });

  it('takes back what was answered, and tells of the next question', () => {
    told(session('b', 'Edit'), session('c', 'Run'));
    expect(told(session('b', 'Delete'), session('c'))).toEqual([
      'The agent in b.ipynb needs your decision: Delete'
    ]);
    expect(told()).toEqual([]);
  });

  it('tells of the session on show only while the panel cannot be seen', () => {
    panel.isVisible = false;
    expect(told(session('front', 'Run'))).toHaveLength(1);
    panel.isVisible = true;
    expect(told(session('front', 'Run'))).toEqual([]);
    panel.sessionId = null; // its notebook was closed
    expect(told(session('front', 'Run'))).toHaveLength(1);
  });

  it('does not repeat what was put away', () => {
    told(session('b', 'Edit'));
    Notification.dismiss();
    expect(told(session('b', 'Edit'))).toEqual([]);
    panel.sessionId = 'b';
    expect(told(session('b', 'Edit'))).toEqual([]);
    panel.sessionId = 'front';
    expect(told(session('b', 'Edit'))).toEqual([]);
    expect(told(session('b', 'Run'))).toHaveLength(1);
  });

  it('is silent where notifications are switched off', () => {
    isOn = false;
    expect(told(session('b', 'Edit'))).toEqual([]);
    isOn = true;
    expect(told(session('b', 'Edit'))).toHaveLength(1);
    isOn = false;
    expect(told(session('b', 'Edit'))).toEqual([]);
  });
});
