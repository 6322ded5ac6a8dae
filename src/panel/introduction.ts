import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';

import { IChatPanel } from '../tokens';

const KEY = 'prime_ext:introduced';

/**
 * Opens the panel once in each browser, so that new users find it. After that the panel is restored
 * with the layout.
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

/** Whether this is the first visit; `false` if the storage is not available. */
function isFirstTime(): boolean {
  try {
    const known = window.localStorage.getItem(KEY) !== null;
    window.localStorage.setItem(KEY, new Date().toISOString());
    return !known;
  } catch {
    return false;
  }
}
