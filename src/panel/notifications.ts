/* eslint-disable jupyter/prefer-lazy-imports -- settings are read at once */
import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IConversation } from '../model/items';
import { PanelSettings } from '../settings/settings';
import { IChatPanel } from '../tokens';

/** An agent that waits for a decision out of sight waits for ever: say so. */
export const notifications: JupyterFrontEndPlugin<void> = {
  id: 'prime_ext:notifications',
  description: 'Tells when the agent needs a decision and its panel is hidden.',
  autoStart: true,
  requires: [IChatPanel],
  optional: [ISettingRegistry, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    panel: IChatPanel,
    settingRegistry: ISettingRegistry | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('prime_ext');
    const settings = new PanelSettings();
    if (settingRegistry) {
      settings.load(settingRegistry, 'prime_ext:plugin').catch(reason => {
        console.error('Prime: the settings could not be loaded.', reason);
      });
    }
    let told: string | null = null;
    let shown = '';
    const dismiss = (): void => {
      if (shown) {
        Notification.dismiss(shown);
        shown = '';
      }
    };
    panel.changed.connect(() => {
      const waiting = openApproval(panel.conversation);
      if (waiting === null || panel.isVisible) {
        dismiss();
      }
      if (
        waiting === null ||
        waiting.callId === told ||
        panel.isVisible ||
        !settings.value.notify
      ) {
        return;
      }
      told = waiting.callId;
      dismiss();
      shown = Notification.info(
        trans.__('The agent needs your decision: %1', waiting.summary),
        {
          autoClose: false,
          actions: [{ label: trans.__('Show'), callback: () => panel.open() }]
        }
      );
    });
  }
};

/** The newest approval that is still open. */
export function openApproval(
  conversation: IConversation | null
): { callId: string; summary: string } | null {
  if (conversation?.activity.phase !== 'approval') {
    return null;
  }
  for (let i = conversation.items.length - 1; i >= 0; i--) {
    const item = conversation.items[i];
    if (
      (item.kind === 'tool' || item.kind === 'approval') &&
      item.approval?.decision === null
    ) {
      return item.approval;
    }
    if (item.kind === 'user') {
      break;
    }
  }
  return null;
}
