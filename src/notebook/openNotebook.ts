/**
 * One notebook that is open in this page, as the agent's operations see it.
 */
import { DocumentRegistry } from '@jupyterlab/docregistry';
import { INotebookModel } from '@jupyterlab/notebook';
import { Contents, ServerConnection } from '@jupyterlab/services';
import { INotebookMetadata } from '@jupyterlab/nbformat';
import { JSONExt, PartialJSONValue, UUID } from '@lumino/coreutils';

import { ClientFrame, INotebookOperation } from '../api/frames';
import { putBack, revertInto, typedDuring } from './loading';
import { areNamed, Cell, IConflict, mergeCells, same } from './mergeCells';
import { OperationError } from './operationError';
import {
  applyEdit,
  applyLateOutputs,
  applyRunStep,
  readCells,
  Runs
} from './operations';
import { endRun, showCells } from './showCells';

/** Acknowledgements remembered, to answer an operation that is sent again. */
const REMEMBERED = 500;

/** Clocks of file systems may differ by so many milliseconds from one look to the next. */
const CLOCK_MARGIN = 500;

/** Times and pause, in milliseconds, of comparing a collaborative document with the disk. */
const COLLABORATIVE_LOOKS = 8;
const LOOK_DELAY = 400;

/** Longest wait, in milliseconds, for outputs to be drawn: a page in the background draws none. */
const PAINT_DELAY = 1000;

export type Ack = Extract<ClientFrame, { type: 'ack' }>;

/** What the notebook looks like in this page, in however many views. */
export interface INotebookViews {
  /** Show a cell that has changed, if that disturbs nobody. */
  reveal(index: number): void;
  /** What the last run of a cell in this page still puts out no longer gets into the cell. */
  letGo(cellId: string): void;
  /** Tell the person of cells that were changed both here and on the server; theirs stay. */
  tell(conflicts: IConflict[]): void;
}

/** What the server says of a notebook to a page that may have been away. */
export interface IStanding {
  /** The version of the file that the server alone has made of the one that the page shows. */
  written?: string | null;
  /** Cells that it runs. */
  running?: string[];
}

export class OpenNotebook {
  constructor(
    readonly context: DocumentRegistry.IContext<INotebookModel>,
    private readonly _contents: Pick<Contents.IManager, 'get'>,
    private readonly _views: INotebookViews
  ) {
    const { model } = context;
    model.contentChanged.connect(this._onContentChanged, this);
    model.metadataChanged.connect(this._onMetadataChanged, this);
    context.saveState.connect(this._onSaveState, this);
    this._metadata = model.metadata;
    // What was typed until now was not seen, nor whether anything was.
    this._edits = model.dirty ? 1 : 0;
    this._saved = this._edits > 0 ? null : this._cells();
    this._sent = {
      edits: this._edits,
      metadata: this._metadata,
      cells: this._saved
    };
  }

  /**
   * Apply an operation, one after the other and each of them once, however often it is sent.
   */
  apply(opId: string, op: INotebookOperation): Promise<Ack> {
    return this._inTurn(async () => {
      const known = this._acks.get(opId);
      if (known) {
        return known;
      }
      const ack = await this._apply(opId, op);
      if (op.op !== 'read') {
        this._acks.set(opId, ack);
        if (this._acks.size > REMEMBERED) {
          this._acks.delete(this._acks.keys().next().value!);
        }
      }
      return ack;
    });
  }

  /** A person runs a cell in this page: what came of the agent's run of it is over. */
  ranHere(cellId: string): void {
    this._ranHere.add(cellId);
  }

  /** The version of the file that the page shows, as the contents manager names it. */
  get version(): string | undefined {
    return this.context.contentsModel?.hash;
  }

  /**
   * Take over what was written to disk while this page was not the writer. Edits that are not
   * saved are kept: they are put together with what the server has written. Where another program
   * has, nothing is taken over, and saving over the other version will be refused.
   */
  refresh({ written, running }: IStanding = {}): Promise<void> {
    return this._inTurn(async () => {
      const { model } = this.context;
      if (model.collaborative) {
        return;
      }
      if (running) {
        this._endRunsBut(running);
      }
      if (this._hasUnsavedCells && !written) {
        return;
      }
      const disk = await this._look();
      if (!this._differs(disk) || this.context.isDisposed) {
        return;
      }
      if (this._hasUnsavedCells) {
        if (written && disk.hash === written) {
          await this._merge();
        }
      } else {
        const unsaved = this._unsavedMetadata();
        const typed = await typedDuring(model, () => this.context.revert());
        this._markSaved();
        for (const [key, value] of unsaved) {
          model.setMetadata(key, value);
        }
        for (const [id, cell] of typed) {
          putBack(model.sharedModel, id, cell);
        }
      }
    });
  }

  /**
   * Whether cells were changed since the document was loaded or saved. Lab itself calls a document
   * changed as soon as its kernel runs, for what it writes of it into the metadata: that must not
   * keep the agent's cells from being shown.
   */
  private get _hasUnsavedCells(): boolean {
    return (
      this.context.isDisposed || (this.context.model.dirty && this._edits > 0)
    );
  }

  /**
   * Put together what was changed here and what the server has written to the file.
   */
  private async _merge(): Promise<void> {
    const { model } = this.context;
    const { _saved: base } = this;
    if (base === null || this._cells() === null) {
      return;
    }
    let conflicts: IConflict[] = [];
    await revertInto(this.context, ({ cells }) => {
      const theirs = cells as Cell[];
      const merge = mergeCells(base, this._cells()!, theirs, this._ranHere);
      showCells(model.sharedModel, merge, (id, trusted) =>
        this._trust(id, trusted)
      );
      for (const id of merge.shown) {
        this._runs.delete(id);
        this._ranHere.delete(id);
      }
      this._saved = theirs;
      this._edits = same(merge.cells, theirs) ? 0 : Math.max(this._edits, 1);
      // Lab may be saving, or asking whether to: that is what there was before.
      this._sent = { ...this._sent, edits: this._edits - 1 };
      conflicts = merge.conflicts;
    });
    model.dirty = this._edits > 0 || this._unsavedMetadata().length > 0;
    if (conflicts.length > 0) {
      this._views.tell(conflicts);
    }
  }

  /** Runs that have ended while the page was away: nobody will tell of their end any more. */
  private _endRunsBut(running: string[]): void {
    for (const id of [...this._runs.keys()]) {
      if (!running.includes(id)) {
        this._runs.delete(id);
        endRun(this.context.model.sharedModel, id);
      }
    }
  }

  /** All cells, if their ids are saved with them. */
  private _cells(): Cell[] | null {
    const { collaborative, sharedModel } = this.context.model;
    if (collaborative || sharedModel.nbformat_minor < 5) {
      return null;
    }
    const cells = sharedModel.cells.map(cell => cell.toJSON());
    return areNamed(cells) ? cells : null;
  }

  private _unsavedMetadata(): [string, unknown][] {
    return Object.entries(this.context.model.metadata).filter(
      ([key, value]) =>
        !JSONExt.deepEqual(
          value as PartialJSONValue,
          (this._metadata[key] ?? null) as PartialJSONValue
        )
    );
  }

  private _onContentChanged(): void {
    this._edits++;
  }

  private _onMetadataChanged(): void {
    // The model calls this a change of its content, too.
    this._edits--;
  }

  private _onSaveState(_: unknown, state: DocumentRegistry.SaveState): void {
    const { model } = this.context;
    if (state === 'started') {
      // What is saved is what there is now, however long the person is asked about it meanwhile.
      this._sent = {
        edits: this._edits,
        metadata: model.metadata,
        cells: this._cells()
      };
    } else if (state === 'completed') {
      this._edits -= this._sent.edits;
      this._metadata = this._sent.metadata;
      this._saved = this._sent.cells;
      if (this._edits > 0 && !model.collaborative) {
        // Lab takes what came since for saved, too.
        model.dirty = true;
        if (this._owesSave) {
          void this.apply(UUID.uuid4(), { op: 'save' });
        }
      }
      this._owesSave = false;
    }
  }

  private _markSaved(): void {
    this._edits = 0;
    this._metadata = this.context.model.metadata;
    this._saved = this._cells();
  }

  private async _apply(opId: string, op: INotebookOperation): Promise<Ack> {
    try {
      const result = await this._perform(op);
      return { type: 'ack', op_id: opId, ok: true, result };
    } catch (reason) {
      const error =
        reason instanceof OperationError
          ? { code: reason.code, message: reason.message, ...reason.details }
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
          // Not sooner: what the cell showed before may come from anywhere.
          this._trust(op.cell_id, true);
        });
        if (op.op === 'run_start') {
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

  /** Outputs of the user's own kernel are trusted, as they are when the user runs the cell. */
  private _trust(cellId: string, trusted: boolean): void {
    for (const cell of this.context.model.cells) {
      if (cell.id === cellId) {
        cell.trusted = trusted;
      }
    }
  }

  /**
   * Save without Lab's dialogs: nobody may be there to answer them, and the agent is told what
   * they would ask.
   */
  private async _save(): Promise<void> {
    if (this.context.contentsModel?.writable === false) {
      throw new OperationError('save_failed', 'The file is read-only.');
    }
    if (this.context.model.collaborative && (await this._isSavedByServer())) {
      return;
    }
    // A collaborative document is saved by the server too, and this page hears of that a little
    // later: only what lasts is a change by somebody else.
    let looks = this.context.model.collaborative ? COLLABORATIVE_LOOKS : 1;
    while (this._differs(await this._look()) && --looks > 0) {
      await new Promise(resolve => window.setTimeout(resolve, LOOK_DELAY));
    }
    if (looks === 0) {
      this._owesSave = true;
      throw new OperationError(
        'save_conflict',
        `${this.context.localPath} was changed on disk since it was opened or saved here.`
      );
    }
    try {
      await this.context.save();
    } catch (reason) {
      throw new OperationError('save_failed', String(reason));
    }
  }

  /**
   * The server saves a collaborative document by itself, unless everybody has switched that off.
   * Lab, saving at the same time, would take that for a change by another program, and ask.
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

  /** What the contents manager says of the file. */
  private async _look(): Promise<Contents.IModel> {
    try {
      return await this._contents.get(this.context.path, {
        content: false,
        hash: true
      });
    } catch (reason) {
      const { localPath } = this.context;
      throw isMissing(reason)
        ? new OperationError(
            'file_missing',
            `${localPath} is no longer there: it was moved, renamed or deleted outside of Jupyter.`
          )
        : new OperationError(
            'save_failed',
            `${localPath} could not be looked at on disk: ${String(reason)}`
          );
    }
  }

  private _differs(disk: Contents.IModel): boolean {
    const here = this.context.contentsModel;
    if (!here) {
      return false;
    }
    if (here.hash && disk.hash) {
      return here.hash !== disk.hash;
    }
    return (
      Date.parse(disk.last_modified) - Date.parse(here.last_modified) >
      CLOCK_MARGIN
    );
  }

  private _inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this._last.then(work, work);
    this._last = turn.catch(() => undefined);
    return turn;
  }

  private _acks = new Map<string, Ack>();
  private _runs: Runs = new Map();
  /** Cells that a person has run since the agent did, as far as this page knows. */
  private _ranHere = new Set<string>();
  /** Changes to cells since the document was loaded or saved. */
  private _edits: number;
  private _metadata: INotebookMetadata;
  /** The cells as they were loaded or saved, if that is known. */
  private _saved: Cell[] | null;
  /** What there was of all three when Lab last began to save. */
  private _sent: {
    edits: number;
    metadata: INotebookMetadata;
    cells: Cell[] | null;
  };
  /** The agent could not save what it changed, until the person has said which version counts. */
  private _owesSave = false;
  private _last: Promise<unknown> = Promise.resolve();
}

function isMissing(reason: unknown): boolean {
  return (
    reason instanceof ServerConnection.ResponseError &&
    reason.response.status === 404
  );
}

/**
 * Resolves when what was changed is on show. The server waits longer between two updates the longer
 * one takes: a page that draws a long output is not told of more than it can draw.
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
