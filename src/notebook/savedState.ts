/**
 * What of an open document is in its file.
 */
import {
  ICell,
  INotebookContent,
  INotebookMetadata
} from '@jupyterlab/nbformat';
import { INotebookModel } from '@jupyterlab/notebook';
import { JSONExt, PartialJSONValue } from '@lumino/coreutils';

import { areNamed, Cell, same } from './mergeCells';

/** The content of a document when it was loaded. */
export type Loaded = Pick<INotebookContent, 'cells' | 'metadata'>;

interface IState {
  /** Number of changes to cells since the document was loaded or saved. */
  edits: number;
  metadata: INotebookMetadata;
  /** The cells as they were loaded or saved; `null` if unknown. */
  cells: Cell[] | null;
}

export class SavedState {
  /**
   * @param loaded - The content of the file that the document was loaded from; `null` if unknown.
   */
  constructor(
    private readonly _model: INotebookModel,
    loaded: Loaded | null
  ) {
    const now: Loaded = { cells: this.allCells(), metadata: _model.metadata };
    // Edits before this point were not observed. Without what was loaded to compare with, assume
    // that there were some if the document is dirty.
    const base = loaded ?? (_model.dirty ? null : now);
    this._state = {
      edits: base && same(base.cells, now.cells) ? 0 : 1,
      metadata: (base ?? now).metadata,
      cells: base && this._named(base.cells)
    };
    this._sent = { ...this._state };
    _model.contentChanged.connect(this._onContentChanged, this);
    _model.metadataChanged.connect(this._onMetadataChanged, this);
  }

  /** Whether cells were changed since the document was loaded or saved. */
  get hasEdits(): boolean {
    return this._state.edits > 0;
  }

  /** The cells as they were loaded or saved; `null` if unknown. */
  get cells(): Cell[] | null {
    return this._state.cells;
  }

  get metadata(): INotebookMetadata {
    return this._state.metadata;
  }

  /** Return all cells of the document. */
  allCells(): ICell[] {
    return this._model.sharedModel.cells.map(cell => cell.toJSON());
  }

  /** Return all cells; `null` if their ids are not saved, or the document is collaborative. */
  namedCells(): Cell[] | null {
    return this._named(this.allCells());
  }

  /** Return the metadata of the document that differ from those in the file. */
  unsavedMetadata(): [string, PartialJSONValue][] {
    return (
      Object.entries(this._model.metadata) as [string, PartialJSONValue][]
    ).filter(
      ([key, value]) => !JSONExt.deepEqual(value, this.metadata[key] ?? null)
    );
  }

  /** JupyterLab starts to save the document as it is now, even if it first asks the user. */
  saving(): void {
    this._sent = {
      edits: this._state.edits,
      metadata: this._model.metadata,
      cells: this.namedCells()
    };
  }

  /** JupyterLab has saved the document, as it was when that started. */
  saved(): void {
    this._state = {
      ...this._sent,
      edits: this._state.edits - this._sent.edits
    };
  }

  /** The document was replaced by the content of the file. */
  replaced(): void {
    this._state = {
      edits: 0,
      metadata: this._model.metadata,
      cells: this.namedCells()
    };
    this._sent = { ...this._state };
  }

  /** The document was merged with a file of these cells; `isSaved`: to the same cells. */
  merged({ cells, metadata }: Loaded, isSaved: boolean): void {
    this._state = {
      edits: isSaved ? 0 : Math.max(this._state.edits, 1),
      metadata,
      cells: cells as Cell[]
    };
  }

  /** JupyterLab may be saving right now; that save contains the state before this one. */
  outdateSave(): void {
    this._sent = { ...this._sent, edits: this._state.edits - 1 };
  }

  private _named(cells: ICell[]): Cell[] | null {
    const { collaborative, sharedModel } = this._model;
    return !collaborative && sharedModel.nbformat_minor >= 5 && areNamed(cells)
      ? cells
      : null;
  }

  private _onContentChanged(): void {
    this._state.edits++;
  }

  private _onMetadataChanged(): void {
    // The model emits `contentChanged` for a change of the metadata, too.
    this._state.edits--;
  }

  private _state: IState;
  /** The state when JupyterLab last started to save. */
  private _sent: IState;
}
