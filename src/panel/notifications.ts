/* eslint-disable jupyter/prefer-lazy-imports -- settings are read at once */
import {
  ILabShell,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import {
  ITranslator,
  nullTranslator,
  TranslationBundle
} from '@jupyterlab/translation';

import { IWaitingApproval } from '../api/rest';
import { PanelSettings } from '../settings/settings';
import { IActiveSessions, IChatPanel } from '../tokens';
import { CommandIDs } from './commands';

/** Notifies the user when an agent whose conversation is not visible waits for a decision. */
export const notifications: JupyterFrontEndPlugin<void> = {
  id: 'prime_ext:notifications',
  description: 'Tells when an agent out of sight needs a decision.',
  autoStart: true,
  requires: [IChatPanel, IActiveSessions],
  optional: [ISettingRegistry, ITranslator, ILabShell],
  activate: (
    app: JupyterFrontEnd,
    panel: IChatPanel,
    active: IActiveSessions,
    settingRegistry: ISettingRegistry | null,
    translator: ITranslator | null,
    labShell: ILabShell | null
  ): void => {
    const settings = new PanelSettings();
    const notices = new DecisionNotices({
      active,
      panel,
      isOn: () => settings.value.notify,
      show: session =>
        void app.commands.execute(CommandIDs.showSession, { session }),
      trans: (translator ?? nullTranslator).load('prime_ext')
    });
    for (const signal of [active.changed, panel.changed, settings.changed]) {
      signal.connect(() => notices.update());
    }
    // A change of the layout may have shown or hidden the panel.
    labShell?.layoutModified.connect(() => notices.update());
    if (settingRegistry) {
      settings.load(settingRegistry, 'prime_ext:plugin').catch(reason => {
        console.error('Prime: the settings could not be loaded.', reason);
      });
    }
  }
};

/** Shows a notification for each session whose approval request is not visible. */
export class DecisionNotices {
  constructor(private readonly _options: DecisionNotices.IOptions) {}

  /** Show notifications for the requests that are not visible, and dismiss outdated ones. */
  update(): void {
    const { active, panel, isOn } = this._options;
    const waiting = new Map(
      active.sessions
        .filter(({ approvals }) => approvals.length > 0)
        .map(session => [session.id, session])
    );
    for (const [id, notice] of [...this._notices]) {
      if (waiting.get(id)?.approvals[0].call_id !== notice.callId) {
        Notification.dismiss(notice.id);
        this._notices.delete(id);
      }
    }
    for (const { id, notebook, approvals } of waiting.values()) {
      const inSight = id === panel.sessionId && panel.isVisible;
      const notice = this._notices.get(id);
      if (inSight || !isOn()) {
        // Keep the entry of a notification that the user dismissed, so that it is not repeated.
        if (notice && Notification.manager.has(notice.id)) {
          Notification.dismiss(notice.id);
          this._notices.delete(id);
        }
      } else if (!notice) {
        this._notices.set(id, {
          callId: approvals[0].call_id,
          id: this._tell(id, notebook, approvals[0])
        });
      }
    }
  }

  private _tell(
    session: string,
    notebook: string,
    { summary }: IWaitingApproval
  ): string {
    const { show, trans } = this._options;
    return Notification.info(
      trans.__(
        'The agent in %1 needs your decision: %2',
        PathExt.basename(notebook),
        summary
      ),
      {
        autoClose: false,
        actions: [
          {
            label: trans.__('Show'),
            caption: trans.__('Open %1 and the conversation', notebook),
            callback: () => show(session)
          }
        ]
      }
    );
  }

  /** The call id of the request and the id of its notification, by session. */
  private _notices = new Map<string, { callId: string; id: string }>();
}

export namespace DecisionNotices {
  export interface IOptions {
    active: Pick<IActiveSessions, 'sessions'>;
    panel: Pick<IChatPanel, 'sessionId' | 'isVisible'>;
    isOn: () => boolean;
    /** Show a session and its notebook. */
    show: (session: string) => void;
    trans: TranslationBundle;
  }
}
