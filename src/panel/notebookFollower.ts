import {
  INotebookTracker,
  NotebookActions,
  NotebookPanel
} from '@jupyterlab/notebook';
import { Contents } from '@jupyterlab/services';
import { ISignal } from '@lumino/signaling';

import { ISessions } from '../tokens';
import { INotebookView } from './context';
import { PanelController } from './controller';

const DEFAULT_LANGUAGE = 'python';

/** Makes the panel follow the current notebook, and gives it access to the open notebooks. */
export class NotebookFollower implements INotebookView {
  /**
   * @param restored - Resolves when JupyterLab has restored its layout.
   * @param shellChanged - Emitted when another widget of JupyterLab's main area becomes current.
   */
  constructor(
    private readonly _tracker: INotebookTracker,
    private readonly _controller: PanelController,
    private readonly _sessions: ISessions,
    private readonly _contents: Contents.IManager,
    restored: Promise<unknown>,
    shellChanged: ISignal<unknown, unknown> | undefined
  ) {
    _tracker.widgetAdded.connect((_, panel) => this._watchPath(panel));
    _tracker.forEach(panel => this._watchPath(panel));
    // Until then, each notebook that is opened again is the current one for a moment, and all of
    // their sessions would be loaded.
    void restored.then(() => {
      _tracker.currentChanged.connect(this._follow, this);
      shellChanged?.connect(this._follow, this);
      this._follow();
    });
  }

  revealCell(notebook: string, cellId: string): boolean {
    const panel = this._find(notebook);
    const cells = panel?.content.widgets ?? [];
    const index = cells.findIndex(cell => cell.model.id === cellId);
    if (!panel || index < 0) {
      return false;
    }
    const { content } = panel;
    const { node } = cells[index];
    content.activeCellIndex = index;
    content.deselectAll();
    content
      .scrollToItem(index, 'smart')
      .then(() => {
        node.classList.add('jp-prime-mod-revealed');
        node.addEventListener(
          'animationend',
          () => node.classList.remove('jp-prime-mod-revealed'),
          { once: true }
        );
      })
      .catch(() => {
        // Another cell was revealed before, or the notebook was closed.
      });
    return true;
  }

  cellSource(notebook: string, cellId: string): string | null {
    const cells = this._find(notebook)?.model?.sharedModel.cells ?? [];
    return cells.find(cell => cell.id === cellId)?.getSource() ?? null;
  }

  insertCell(source: string): void {
    const notebook = this._panel?.content;
    if (notebook?.model) {
      NotebookActions.insertBelow(notebook);
      // The default type of new cells may be another one.
      NotebookActions.changeCellType(notebook, 'code');
      notebook.activeCell?.model.sharedModel.setSource(source);
      void notebook.scrollToItem(notebook.activeCellIndex, 'smart');
    }
  }

  language(): string {
    const info = this._panel?.model?.getMetadata('language_info');
    return info?.name ?? DEFAULT_LANGUAGE;
  }

  private _find(notebook: string): NotebookPanel | undefined {
    return this._tracker.find(panel => this._path(panel) === notebook);
  }

  private _follow(): void {
    const panel = this._tracker.currentWidget;
    const { _panel: old } = this;
    // To the tracker, a notebook that is opened in the background is the current one, unless the
    // focus is in another notebook. Follow it once it is shown.
    const isBehind = panel !== null && !panel.isVisible;
    if (panel === old || (isBehind && old && !old.isDisposed)) {
      return;
    }
    if (old && !old.isDisposed) {
      old.sessionContext.statusChanged.disconnect(this._onKernel, this);
      old.sessionContext.kernelChanged.disconnect(this._onKernel, this);
    }
    this._panel = panel;
    if (panel) {
      panel.sessionContext.statusChanged.connect(this._onKernel, this);
      panel.sessionContext.kernelChanged.connect(this._onKernel, this);
    }
    void this._controller.setNotebook(panel && this._path(panel));
    this._onKernel();
  }

  /** Move the sessions of a notebook when it is renamed, whether it is the current one or not. */
  private _watchPath(panel: NotebookPanel): void {
    let from = this._path(panel);
    panel.context.pathChanged.connect(() => {
      const to = this._path(panel);
      if (to === from) {
        return;
      }
      if (panel === this._panel) {
        this._controller.renameNotebook(to);
      }
      this._sessions.rename(from, to).catch(reason => {
        console.warn('Prime: sessions did not follow the notebook.', reason);
      });
      from = to;
    });
  }

  private _onKernel(): void {
    const context = this._panel?.sessionContext;
    this._controller.setKernel(
      context?.session?.kernel
        ? {
            name: context.kernelDisplayName,
            status: context.kernelDisplayStatus
          }
        : null
    );
  }

  private _path(panel: NotebookPanel): string {
    return this._contents.localPath(panel.context.path);
  }

  private _panel: NotebookPanel | null = null;
}
