/**
 * Applies the agent's operations to the notebooks that are open in this page.
 */
import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { CodeCell } from '@jupyterlab/cells';
import { DocumentRegistry } from '@jupyterlab/docregistry';
import {
  INotebookModel,
  INotebookTracker,
  NotebookActions,
  NotebookPanel
} from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { INotebookInUse } from '../api/rest';
import {
  IActiveSessions,
  INotebookWriter,
  ISessions,
  ISessionStreams
} from '../tokens';
import type { NotebookLease } from './notebookLease';
import type { OpenNotebook } from './openNotebook';
import type { Loaded } from './savedState';

type Context = DocumentRegistry.IContext<INotebookModel>;
type OnScheduled = Parameters<
  typeof NotebookActions.executionScheduled.connect
>[0];

/** Timeout for the server's answer to a claim, in milliseconds. */
const CLAIM_PATIENCE = 15_000;

export const notebookWriter: JupyterFrontEndPlugin<INotebookWriter> = {
  id: 'prime_ext:notebook-writer',
  description: 'Applies what the agent does to the notebooks that are open.',
  autoStart: true,
  provides: INotebookWriter,
  requires: [INotebookTracker, ISessions, ISessionStreams],
  optional: [IActiveSessions, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    sessions: ISessions,
    streams: ISessionStreams,
    active: IActiveSessions | null,
    translator: ITranslator | null
  ): INotebookWriter => {
    const trans = (translator ?? nullTranslator).load('prime_ext');
    const leases = new Map<Context, NotebookLease>();
    const opening = new Map<Context, Promise<void>>();

    const open = async (context: Context): Promise<void> => {
      const wasReady = context.isReady;
      const [lease, notebook, notice, loaded] = await Promise.all([
        import(/* webpackChunkName: "writer" */ './notebookLease'),
        import(/* webpackChunkName: "writer" */ './openNotebook'),
        import(/* webpackChunkName: "writer" */ './conflictNotice'),
        // Lab may make the document dirty while it loads it, and the kernel may until the chunk is
        // there: both because of the kernel's metadata.
        context.ready.then(() =>
          wasReady && context.model.dirty ? null : contentOf(context)
        )
      ]);
      if (context.isDisposed) {
        return;
      }
      const opened: OpenNotebook = new notebook.OpenNotebook(
        context,
        app.serviceManager.contents,
        {
          reveal: index => reveal(tracker, context, index),
          letGo: cellId => letGo(tracker, context, cellId),
          tell: conflicts =>
            notice.tellConflicts(context.localPath, conflicts, trans),
          tellBehind: () =>
            notice.tellBehind(context.localPath, () => opened.compare(), trans)
        },
        loaded
      );
      const held = new lease.NotebookLease(opened, sessions, streams);
      const onScheduled: OnScheduled = (_, { notebook, cell }) => {
        if (notebook.model === context.model) {
          opened.ranHere(cell.model.id);
        }
      };
      NotebookActions.executionScheduled.connect(onScheduled);
      leases.set(context, held);
      context.disposed.connect(() => {
        NotebookActions.executionScheduled.disconnect(onScheduled);
        leases.delete(context);
        held.dispose();
      });
    };

    const onAdded = (
      sender: INotebookTracker,
      { context }: NotebookPanel
    ): void => {
      // A notebook can have several views; they share one document.
      if (opening.has(context)) {
        return;
      }
      const opened = open(context);
      opened.catch(reason => {
        console.error('The agent cannot write this notebook.', reason);
      });
      opening.set(context, opened);
      context.disposed.connect(() => opening.delete(context));
    };
    tracker.widgetAdded.connect(onAdded);
    tracker.forEach(panel => onAdded(tracker, panel));
    tracker.currentChanged.connect((sender, panel) => {
      if (panel) {
        leases.get(panel.context)?.look();
      }
    });

    let before: readonly INotebookInUse[] = [];
    active?.changed.connect(({ elsewhere }) => {
      const has = (
        list: readonly INotebookInUse[],
        { localPath }: Context
      ): boolean => list.some(({ notebook }) => notebook === localPath);
      for (const [context, lease] of leases) {
        if (has(before, context) && !has(elsewhere, context)) {
          lease.refresh();
        }
      }
      before = elsewhere;
    });

    const claim = async (path: string): Promise<void> => {
      for (const [context, opened] of opening) {
        if (context.localPath === path) {
          await opened.catch(() => {
            // The chunks are loaded on demand, which fails if the package was updated meanwhile.
            // Without them the server would change the file without this page knowing.
            throw new Error(
              trans.__(
                'This page cannot show the agent’s changes. Save the notebook and reload the page.'
              )
            );
          });
          await leases.get(context)?.answered;
        }
      }
    };
    return {
      claimed: path =>
        Promise.race([
          claim(path),
          new Promise<void>(resolve =>
            window.setTimeout(resolve, CLAIM_PATIENCE)
          )
        ])
    };
  }
};

function contentOf({ model }: Context): Loaded {
  return {
    cells: model.sharedModel.cells.map(cell => cell.toJSON()),
    metadata: model.metadata
  };
}

/**
 * Scroll to a changed cell in the visible views, except where the user is typing. Focus and active
 * cell do not change.
 */
function reveal(
  tracker: INotebookTracker,
  context: Context,
  index: number
): void {
  tracker.forEach(panel => {
    const typing =
      panel.content.mode === 'edit' &&
      panel.node.contains(document.activeElement);
    if (panel.context === context && panel.isVisible && !typing) {
      panel.content.scrollToItem(index, 'smart').catch(() => {
        // The cell was deleted, or its view does not exist yet.
      });
    }
  });
}

/**
 * Ignore further IOPub messages of the user's last run of a cell. JupyterLab listens to that run
 * until it starts the next one itself. Since the server starts the agent's runs, late outputs of
 * the user's run would be mixed with theirs.
 */
function letGo(
  tracker: INotebookTracker,
  context: Context,
  cellId: string
): void {
  tracker.forEach(panel => {
    if (panel.context !== context) {
      return;
    }
    for (const cell of panel.content.widgets) {
      if (cell.model.id === cellId && cell instanceof CodeCell) {
        const { future } = cell.outputArea;
        if (future) {
          future.onIOPub = () => undefined;
        }
      }
    }
  });
}
