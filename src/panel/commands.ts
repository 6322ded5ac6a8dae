import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, showErrorMessage } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IChatPanel, ISessions } from '../tokens';
import { primeIcon } from './icons';

export namespace CommandIDs {
  export const open = 'prime:open';
  export const submit = 'prime:submit';
  export const interrupt = 'prime:interrupt';
  export const newSession = 'prime:new-session';
  export const compact = 'prime:compact';
  export const tour = 'prime:tour';
  export const showSession = 'prime:show-session';
}

/** Commands that take no arguments. */
const NO_ARGS = { args: { type: 'object', properties: {} } } as const;

export const commands: JupyterFrontEndPlugin<void> = {
  id: 'prime_ext:commands',
  description: 'Commands of the Prime agent, in the palette and on keys.',
  autoStart: true,
  requires: [IChatPanel, ISessions, INotebookTracker],
  optional: [ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    panel: IChatPanel,
    sessions: ISessions,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('prime_ext');
    const category = trans.__('Prime');
    const hasNotebook = (): boolean => panel.notebook !== null;
    const isRunning = (): boolean => !!panel.conversation?.activity.running;
    const say = (text: string) => (): Promise<void> => {
      panel.open();
      return panel.submit(text);
    };

    app.commands.addCommand(CommandIDs.open, {
      label: trans.__('Open the Prime Agent'),
      caption: trans.__('Show the agent’s panel and write a message'),
      describedBy: NO_ARGS,
      icon: primeIcon,
      execute: () => panel.open()
    });
    app.commands.addCommand(CommandIDs.submit, {
      label: trans.__('Send a Message to the Prime Agent'),
      caption: trans.__(
        'Start or continue the conversation about this notebook'
      ),
      describedBy: {
        args: {
          type: 'object',
          required: ['text'],
          properties: {
            text: { type: 'string', description: trans.__('The message') }
          }
        }
      },
      isEnabled: hasNotebook,
      execute: args => say(String(args.text ?? ''))()
    });
    app.commands.addCommand(CommandIDs.interrupt, {
      label: trans.__('Stop the Prime Agent'),
      caption: trans.__(
        'Stop the model, its tools and what they run in the kernel'
      ),
      describedBy: NO_ARGS,
      isEnabled: isRunning,
      execute: () => panel.interrupt()
    });
    app.commands.addCommand(CommandIDs.newSession, {
      label: trans.__('New Session on This Notebook'),
      caption: trans.__('Start a new conversation; the current one is kept'),
      describedBy: NO_ARGS,
      isEnabled: hasNotebook,
      execute: say('/new')
    });
    app.commands.addCommand(CommandIDs.compact, {
      label: trans.__('Compact the Conversation'),
      caption: trans.__(
        'Shorten the conversation for the model; the kernel’s variables stay'
      ),
      describedBy: NO_ARGS,
      isEnabled: () => panel.sessionId !== null,
      execute: say('/compact')
    });
    app.commands.addCommand(CommandIDs.tour, {
      label: trans.__('Take the Tour'),
      caption: trans.__('See every feature on this notebook'),
      describedBy: NO_ARGS,
      isEnabled: hasNotebook,
      execute: say('/tour')
    });
    app.commands.addCommand(CommandIDs.showSession, {
      label: trans.__('Show a Session of the Prime Agent'),
      caption: trans.__('Open its notebook and its conversation'),
      describedBy: {
        args: {
          type: 'object',
          required: ['session'],
          properties: {
            session: {
              type: 'string',
              description: trans.__('Id of the session')
            }
          }
        }
      },
      execute: async args => {
        const id = String(args.session);
        try {
          // The notebook may have been moved meanwhile.
          const { notebook: path } = await sessions.get(id);
          await sessions.select(path, id);
          const { contents } = app.serviceManager;
          const open = tracker.find(
            ({ context }) => contents.localPath(context.path) === path
          );
          if (open) {
            app.shell.activateById(open.id);
          } else {
            await app.commands.execute('docmanager:open', { path });
          }
          panel.open();
        } catch (reason) {
          await showErrorMessage(
            trans.__('The session cannot be shown'),
            reason as Error
          );
        }
      }
    });
    for (const command of [
      CommandIDs.open,
      CommandIDs.interrupt,
      CommandIDs.newSession,
      CommandIDs.compact,
      CommandIDs.tour
    ]) {
      palette?.addItem({ command, category });
    }
    let known = '';
    panel.changed.connect(() => {
      // The panel emits `changed` for every delta.
      const now = [hasNotebook(), panel.sessionId !== null, isRunning()].join();
      if (now !== known) {
        known = now;
        for (const command of Object.values(CommandIDs)) {
          app.commands.notifyCommandChanged(command);
        }
      }
    });
  }
};
