/**
 * One notebook that is open in this page, as the target of the agent's operations.
 */
import { DocumentRegistry } from '@jupyterlab/docregistry';
import { INotebookModel } from '@jupyterlab/notebook';
import { Contents } from '@jupyterlab/services';
import { INotebookContent } from '@jupyterlab/nbformat';
import { UUID } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

import { INotebookOperation } from '../api/frames';
import { Ack, Acknowledgements } from './acknowledgements';
import { differs, lookUp, versionOf } from './file';
import { asLoaded, editedSince, hasIds, putBack, revertInto } from './loading';
import {
  areNamed,
  areSaved,
  Cell,
  differences,
  IConflict,
  mergeCells
} from './mergeCells';
import { OperationError } from './operationError';
import {
  applyEdit,
  applyLateOutputs,
  applyRunStep,
  readCells,
  Runs
} from './operations';
import { Loaded, SavedState } from './savedState';
import { beginRun, endRun, showCells } from './showCells';

/** Number of checks of a collaborative document, and the pause between them in milliseconds. */
const COLLABORATIVE_LOOKS = 8;
const LOOK_DELAY = 400;

/** Timeout in milliseconds for outputs to be rendered: a background page renders none. */
const PAINT_DELAY = 1000;

/** The views of the notebook in this page, of which there can be several. */
export interface INotebookViews {
  /** Scroll to a changed cell, unless the user is typing. */
  reveal(index: number): void;
  /** Ignore further outputs of the last run of a cell that was started in this page. */
  letGo(cellId: string): void;
  /** Notify the user of cells that were changed here and in the file; the user's are kept. */
  tell(conflicts: IConflict[]): void;
  /** Notify the user that the file was changed and could not be merged with what is unsaved. */
  tellBehind(): () => void;
}

/** The server's state of a notebook, sent to a page that may not have the latest version. */
export interface IStanding {
  /** Version of the file, if only the server and pages have changed it since the page's version. */
  written?: string | null;
  /** Ids of the cells that the server is running. */
  running?: string[];
  /** Whether the page is the writer, which is sent each run. */
  held?: boolean;
}

export class OpenNotebook {
  /**
   * @param loaded - The content of the file that the document was loaded from; `null` if unknown.
   */
  constructor(
    readonly context: DocumentRegistry.IContext<INotebookModel>,
    private readonly _contents: Pick<Contents.IManager, 'get'>,
    private readonly _views: INotebookViews,
    loaded: Loaded | null
  ) {
    this._saved = new SavedState(context.model, loaded);
    context.saveState.connect(this._onSaveState, this);
    context.fileChanged.connect(this._onFileChanged, this);
  }

  /**
   * Apply an operation. Operations are applied one after the other, and idempotently: one that is
   * sent again is only acknowledged again.
   */
  apply(opId: string, op: INotebookOperation): Promise<Ack> {
    return this._inTurn(async () => {
      const known = this._acks.get(opId);
      if (known) {
        return known;
      }
      const ack = await this._apply(opId, op);
      if (op.op !== 'read') {
        this._acks.add(ack);
      }
      return ack;
    });
  }

  /** Note that the user runs a cell in this page, which supersedes the agent's run of it. */
  ranHere(cellId: string): void {
    this._ranHere.add(cellId);
    this._runElsewhere.delete(cellId);
  }

  /** Version of the file that the page has loaded: the hash of the contents manager. */
  get version(): string | undefined {
    return this.context.contentsModel?.hash;
  }

  /** Emits when the page has saved the notebook, or loaded another version of the file. */
  get versionChanged(): ISignal<this, 'saved' | 'loaded'> {
    return this._versionChanged;
  }

  /** Version of the file that differs from the page and could not be merged with it, if any. */
  get behind(): string | null {
    return this._behind;
  }

  /** Notify the user, once, that the file differs from the page and was not merged with it. */
  tellBehind(): void {
    if (this._behind !== null && this._dismiss === null) {
      this._dismiss = this._views.tellBehind();
    }
  }

  /** Return the cells whose source differs between the document and the file. */
  async compare(): Promise<IConflict[]> {
    const { content } = await this._contents.get(this.context.path, {
      content: true,
      type: 'notebook'
    });
    return differences(this._saved.allCells(), asLoaded(content).cells);
  }

  /**
   * Load changes that were written to disk by others, and show which cells run. Unsaved edits are
   * kept and merged with the changes of the server and of other pages. If another program has
   * changed the file as well, nothing is loaded over unsaved edits, and saving will report a
   * conflict.
   */
  refresh({ written, running, held = true }: IStanding = {}): Promise<void> {
    return this._inTurn(async () => {
      if (this.context.model.collaborative) {
        return;
      }
      if (running) {
        for (const id of [...this._runs.keys(), ...this._runElsewhere]) {
          if (!running.includes(id)) {
            this._endRun(id);
          }
        }
      }
      await this._takeOver(written);
      if (running && !held && !this.context.isDisposed) {
        // Now that the cells are there.
        this._showRuns(running);
      }
    });
  }

  /** Load the file if it has changed; `written` is as in `IStanding`. */
  private async _takeOver(written?: string | null): Promise<void> {
    if (this.context.isDisposed) {
      return;
    }
    const disk = await lookUp(this.context, this._contents);
    if (this.context.isDisposed) {
      return;
    }
    if (!differs(this.context, disk)) {
      this._upToDate();
      return;
    }
    const isOurs = !!written && disk.hash === written;
    const isLoaded =
      (isOurs || !this._hasUnsavedCells) && (await this._load(isOurs));
    if (isLoaded) {
      this._versionChanged.emit('loaded');
    } else {
      this._behind = versionOf(disk);
    }
  }

  /** Show the runs of the server that another page is sent. */
  private _showRuns(running: readonly string[]): void {
    for (const id of running) {
      if (!this._runs.has(id) && beginRun(this.context.model.sharedModel, id)) {
        this._runElsewhere.add(id);
      }
    }
  }

  /**
   * Whether cells were changed since the document was loaded or saved. JupyterLab marks a document
   * as dirty as soon as its kernel runs, because of the kernel's metadata; that must not keep the
   * agent's cells from being shown.
   */
  private get _hasUnsavedCells(): boolean {
    return (
      this.context.isDisposed ||
      (this.context.model.dirty && this._saved.hasEdits)
    );
  }

  /**
   * Load the file and merge it, cell by cell, with what is unsaved or changes until it arrives. If
   * cells have no lasting ids to match them by, JupyterLab replaces them all, and only the sources
   * that were edited are put back.
   *
   * @param isOurs - Whether only the server and pages have changed the file.
   * @returns Whether the file was loaded: not if it is unknown what the unsaved edits were made to.
   */
  private async _load(isOurs: boolean): Promise<boolean> {
    const { model } = this.context;
    const saved = this._saved;
    const base = this._hasUnsavedCells ? saved.cells : saved.allCells();
    if (base === null) {
      return false;
    }
    let conflicts: IConflict[] = [];
    this._isLoading = true;
    const loading = revertInto(this.context, (content, replace) => {
      const unsaved = Object.fromEntries(saved.unsavedMetadata());
      const mine = saved.namedCells();
      if (mine && areNamed(base) && hasIds(content)) {
        conflicts = this._merge(base, mine, asLoaded(content), isOurs);
      } else {
        const edited = editedSince(base, saved.allCells());
        replace();
        saved.replaced();
        for (const cell of edited) {
          putBack(model.sharedModel, cell);
        }
      }
      model.sharedModel.setMetadata({ ...saved.metadata, ...unsaved });
      saved.outdateSave();
      model.dirty = saved.hasEdits || saved.unsavedMetadata().length > 0;
    });
    await loading.finally(() => {
      this._isLoading = false;
    });
    this._upToDate();
    if (conflicts.length > 0) {
      this._views.tell(conflicts);
    }
    if (this._owesSave && model.dirty) {
      // The conflict that kept the agent's changes from being saved is resolved.
      this._owesSave = false;
      void this.apply(UUID.uuid4(), { op: 'save' });
    }
    return true;
  }

  private _upToDate(): void {
    this._behind = null;
    this._dismiss?.();
    this._dismiss = null;
  }

  private _merge(
    base: Cell[],
    mine: Cell[],
    file: INotebookContent,
    isOurs: boolean
  ): IConflict[] {
    const { sharedModel } = this.context.model;
    const theirs = file.cells as Cell[];
    const merge = mergeCells(base, mine, theirs, this._ranHere);
    showCells(sharedModel, merge, (id, trusted) => this._trust(id, trusted));
    for (const id of merge.shown) {
      const run = this._runs.get(id);
      if (isOurs) {
        this._endRun(id);
        this._ranHere.delete(id);
      } else if (run?.isShown) {
        // Its outputs are gone from the page; the server sends them again for an unknown run.
        run.id = '';
      }
    }
    // The property is read-only in the interface only.
    (sharedModel as { nbformat_minor: number }).nbformat_minor =
      file.nbformat_minor;
    this._saved.merged(file, areSaved(merge.cells, theirs));
    return merge.conflicts;
  }

  /**
   * End a run that has ended while the page was disconnected; no `run_end` will follow. If it goes
   * on, the server is told that the page does not know it, and sends all of it.
   */
  private _endRun(cellId: string): void {
    this._runs.delete(cellId);
    this._runElsewhere.delete(cellId);
    endRun(this.context.model.sharedModel, cellId);
  }

  private _onSaveState(_: unknown, state: DocumentRegistry.SaveState): void {
    const { model } = this.context;
    if (state === 'started') {
      this._saved.saving();
    } else if (state === 'completed') {
      this._isReplaced = false;
      this._saved.saved();
      if (!model.collaborative) {
        this._upToDate();
        this._versionChanged.emit('saved');
      }
      if (this._saved.hasEdits && !model.collaborative) {
        // JupyterLab considers later changes as saved, too.
        model.dirty = true;
        if (this._owesSave) {
          void this.apply(UUID.uuid4(), { op: 'save' });
        }
      }
      this._owesSave = false;
    }
  }

  private _onFileChanged(): void {
    if (this._isLoading || !this.version || this.context.model.collaborative) {
      return;
    }
    // Of a save, JupyterLab reports the completion at once; otherwise the user has loaded the file.
    this._isReplaced = true;
    queueMicrotask(() => {
      if (this._isReplaced) {
        this._isReplaced = false;
        this._onReplaced();
      }
    });
  }

  /** The user has replaced the content of the document by that of the file. */
  private _onReplaced(): void {
    this._saved.replaced();
    this._owesSave = false;
    this._upToDate();
    this._versionChanged.emit('loaded');
  }

  private async _apply(opId: string, op: INotebookOperation): Promise<Ack> {
    try {
      const result = await this._perform(op);
      return { type: 'ack', op_id: opId, ok: true, result };
    } catch (reason) {
      const error =
        reason instanceof OperationError
          ? {
              code: reason.code,
              message: reason.message,
              ...reason.details,
              ...(this._behind === null ? {} : { behind: true })
            }
          : { code: 'operation_failed', message: String(reason) };
      return { type: 'ack', op_id: opId, ok: false, error };
    }
  }

  private async _perform(op: INotebookOperation): Promise<unknown> {
    if (this.context.isDisposed) {
      throw new OperationError(
        'notebook_not_open',
        'The notebook was closed in the browser.'
      );
    }
    const { model } = this.context;
    switch (op.op) {
      case 'read':
        return readCells(model.sharedModel, op);
      case 'save':
        await this._save();
        return {};
      case 'run_start':
      case 'run_outputs':
      case 'run_end': {
        const applied = applyRunStep(model.sharedModel, op, this._runs, () => {
          this._ranHere.delete(op.cell_id);
          this._views.letGo(op.cell_id);
          // Not earlier: the outputs before the run may come from an untrusted source.
          this._trust(op.cell_id, true);
        });
        if (op.op === 'run_start') {
          this._runElsewhere.delete(op.cell_id);
          this._views.reveal(applied.after!.index);
        } else if (op.op === 'run_outputs') {
          await painted();
        }
        return applied;
      }
      case 'late_outputs': {
        const applied = applyLateOutputs(model.sharedModel, op, this._ranHere);
        await painted();
        return applied;
      }
      default: {
        const applied = applyEdit(model.sharedModel, op);
        if (op.op === 'edit_cell' && op.trusted !== undefined) {
          this._trust(op.cell_id, op.trusted);
        }
        if (applied.after) {
          this._views.reveal(applied.after.index);
        }
        return applied;
      }
    }
  }

  /** Set whether a cell is trusted. Outputs of a run are, as when the user runs the cell. */
  private _trust(cellId: string, trusted: boolean): void {
    for (const cell of this.context.model.cells) {
      if (cell.id === cellId) {
        cell.trusted = trusted;
        // JupyterLab's model records only that a cell is trusted, not that it no longer is. The
        // cell would be trusted again once it is moved or saved.
        cell.setMetadata('trusted', trusted);
      }
    }
  }

  /**
   * Save without JupyterLab's dialogs, which nobody may be there to answer. The agent gets an error
   * instead.
   */
  private async _save(): Promise<void> {
    if (this.context.contentsModel?.writable === false) {
      throw new OperationError('save_failed', 'The file is read-only.');
    }
    if (this.context.model.collaborative && (await this._isSavedByServer())) {
      return;
    }
    // The server saves a collaborative document, too, and this page learns of that with a delay:
    // only a difference that persists is a change by another program.
    let looks = this.context.model.collaborative ? COLLABORATIVE_LOOKS : 1;
    let disk = await lookUp(this.context, this._contents);
    while (differs(this.context, disk) && --looks > 0) {
      await new Promise(resolve => window.setTimeout(resolve, LOOK_DELAY));
      disk = await lookUp(this.context, this._contents);
    }
    if (looks === 0) {
      this._owesSave = true;
      this._behind = versionOf(disk);
      this.tellBehind();
      throw new OperationError(
        'save_conflict',
        `${this.context.localPath} was changed on disk since it was opened or saved here.`
      );
    }
    try {
      await this.context.save();
    } catch (reason) {
      throw new OperationError(
        'save_failed',
        reason instanceof Error ? reason.message : String(reason)
      );
    }
  }

  /**
   * Wait until the server has saved a collaborative document, which it does by itself unless all
   * users have switched that off. If JupyterLab saved at the same time, it would take the server's
   * save for a change by another program, and ask.
   */
  private async _isSavedByServer(): Promise<boolean> {
    for (let looks = COLLABORATIVE_LOOKS; looks > 0; looks--) {
      if (!this.context.model.dirty) {
        return true;
      }
      await new Promise(resolve => window.setTimeout(resolve, LOOK_DELAY));
    }
    return false;
  }

  private _inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this._last.then(work, work);
    this._last = turn.catch(() => undefined);
    return turn;
  }

  private readonly _acks = new Acknowledgements();
  private _runs: Runs = new Map();
  /** Ids of the cells that the user has run in this page since the agent did. */
  private _ranHere = new Set<string>();
  /** Ids of the cells that are shown as running because the server runs them in another page. */
  private _runElsewhere = new Set<string>();
  private readonly _saved: SavedState;
  /** Whether a save of the agent failed with a conflict that the user has to resolve. */
  private _owesSave = false;
  private _behind: string | null = null;
  /** Whether the user was told of that since the page was last up to date. */
  /** Removes the notification that the file differs, if there is one. */
  private _dismiss: (() => void) | null = null;
  private _isLoading = false;
  /** Whether the document was replaced by another version of the file, unless that is a save. */
  private _isReplaced = false;
  private _versionChanged = new Signal<this, 'saved' | 'loaded'>(this);
  private _last: Promise<unknown> = Promise.resolve();
}

/**
 * Wait until the change is rendered. The longer an update takes, the longer the server waits before
 * the next one, so that a page does not get more updates than it can render.
 */
function painted(): Promise<void> {
  return new Promise(resolve => {
    const timer = window.setTimeout(resolve, PAINT_DELAY);
    requestAnimationFrame(() => {
      window.setTimeout(() => {
        window.clearTimeout(timer);
        resolve();
      });
    });
  });
}
