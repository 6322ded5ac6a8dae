/**
 * Lets the agent's operations into the notebooks that are open in this page.
 */
import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { DocumentRegistry } from '@jupyterlab/docregistry';
import {
  INotebookModel,
  INotebookTracker,
  NotebookPanel
} from '@jupyterlab/notebook';

import { ISessions, ISessionStreams } from '../tokens';
import type { NotebookLease } from './notebookLease';

export const notebookWriter: JupyterFrontEndPlugin<void> = {
  id: 'prime_ext:notebook-writer',
  description: 'Applies what the agent does to the notebooks that are open.',
  autoStart: true,
  requires: [INotebookTracker, ISessions, ISessionStreams],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    sessions: ISessions,
    streams: ISessionStreams
  ): void => {
    const leases = new Map<
      DocumentRegistry.IContext<INotebookModel>,
      NotebookLease
    >();

    const open = async (panel: NotebookPanel): Promise<void> => {
      const { context } = panel;
      const [lease, notebook] = await Promise.all([
        import('./notebookLease'),
        import('./openNotebook'),
        context.ready
      ]);
      // A notebook can have several views; they share one document.
      if (context.isDisposed || leases.has(context)) {
        return;
      }
      const held = new lease.NotebookLease(
        new notebook.OpenNotebook(context, app.serviceManager.contents, index =>
          reveal(tracker, context, index)
        ),
        sessions,
        streams
      );
      leases.set(context, held);
      context.disposed.connect(() => {
        leases.delete(context);
        held.dispose();
      });
    };

    const onAdded = (sender: INotebookTracker, panel: NotebookPanel): void => {
      open(panel).catch(reason => {
        console.error('The agent cannot write this notebook.', reason);
      });
    };
    tracker.widgetAdded.connect(onAdded);
    tracker.forEach(panel => onAdded(tracker, panel));
    tracker.currentChanged.connect((sender, panel) => {
      if (panel) {
        leases.get(panel.context)?.look();
      }
    });
  }
};

/**
 * Scroll to a cell that has changed, in the views that are visible, unless the user is typing
 * there. Focus and active cell stay where they are.
 */
function reveal(
  tracker: INotebookTracker,
  context: DocumentRegistry.IContext<INotebookModel>,
  index: number
): void {
  tracker.forEach(panel => {
    const typing =
      panel.content.mode === 'edit' &&
      panel.node.contains(document.activeElement);
    if (panel.context === context && panel.isVisible && !typing) {
      panel.content.scrollToItem(index, 'smart').catch(() => {
        // The cell is gone again, or its view not yet there.
      });
    }
  });
}
