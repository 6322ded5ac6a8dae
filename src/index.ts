import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';

/**
 * The agent's side panel.
 */
const panel: JupyterFrontEndPlugin<void> = {
  id: 'prime_ext:plugin',
  description: 'An agent that works in the open notebook.',
  autoStart: true,
  activate: (app: JupyterFrontEnd): void => {}
};

export default [panel];
