import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';

import { IChatPanel } from '../tokens';

const KEY = 'prime_ext:introduced';

/**
 * Shows the panel once in each browser, so that whoever has just installed it need not look for it.
 * After that it is where the person left it.
 */
export const introduction: JupyterFrontEndPlugin<void> = {
  id: 'prime_ext:introduction',
  description: 'Shows the Prime panel the first time.',
  autoStart: true,
  requires: [IChatPanel],
  activate: (app: JupyterFrontEnd, panel: IChatPanel): void => {
    void app.restored.then(() => {
      if (isFirstTime()) {
        panel.open();
      }
    });
  }
};

/** Where nothing can be remembered, nothing is shown unasked. */
function isFirstTime(): boolean {
  try {
    const known = window.localStorage.getItem(KEY) !== null;
    window.localStorage.setItem(KEY, new Date().toISOString());
    return !known;
  } catch {
    return false;
  }
}
