/* eslint-disable jupyter/prefer-lazy-imports -- the status bar is drawn when Lab starts */
import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { CommandIDs } from '../panel/commands';
import { IActiveSessions, IChatPanel } from '../tokens';
import { StatusItem } from './statusItem';

export const status: JupyterFrontEndPlugin<void> = {
  id: 'prime_ext:status',
  description:
    'What the agent does here and elsewhere, and how full its context is.',
  autoStart: true,
  requires: [IChatPanel, IActiveSessions],
  optional: [IStatusBar, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    panel: IChatPanel,
    active: IActiveSessions,
    statusBar: IStatusBar | null,
    translator: ITranslator | null
  ): void => {
    if (!statusBar) {
      return;
    }
    const trans = (translator ?? nullTranslator).load('prime_ext');
    const item = new StatusItem(
      panel,
      active,
      session => void app.commands.execute(CommandIDs.showSession, { session }),
      trans
    );
    statusBar.registerStatusItem('prime_ext:status', {
      item,
      align: 'right',
      rank: 900,
      isActive: () => item.isActive,
      activeStateChanged: item.activeStateChanged
    });
  }
};
