import type { Cell } from '@jupyterlab/cells';
import { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { IDisposable } from '@lumino/disposable';
import type { Drag } from '@lumino/dragdrop';

import { IAttachment } from '../api/attachments';
import { cellReference } from '../mentions/cells';
import { imagesAmong } from '../mentions/images';

const CELLS = 'internal:cells';
const FILES = 'application/x-jupyter-icontents';
const HELD_OVER = 'jp-mod-dropTarget';

/** The actions for what is dropped. */
export interface IDropTarget {
  /** Return the path relative to the server's root, without a drive. */
  localPath(path: string): string;
  attach(...attachments: IAttachment[]): void;
  attachImages(files: File[]): void;
  /** Whether attachments are accepted, that is, whether there is a notebook. */
  isOpen(): boolean;
}

/** Accepts cells of notebooks, files of the file browser, and images from outside the page. */
export class DropTarget implements IDisposable {
  constructor(
    private readonly _node: HTMLElement,
    private readonly _target: IDropTarget
  ) {
    for (const type of EVENTS) {
      _node.addEventListener(type, this, true);
    }
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    for (const type of EVENTS) {
      this._node.removeEventListener(type, this, true);
    }
  }

  handleEvent(event: Event): void {
    switch (event.type) {
      case 'lm-dragenter':
      case 'lm-dragover':
        this._over(event as Drag.Event);
        break;
      case 'lm-dragleave':
      case 'dragleave':
        this._node.classList.remove(HELD_OVER);
        break;
      case 'lm-drop':
        this._drop(event as Drag.Event);
        break;
      case 'dragover':
        this._overFromOutside(event as DragEvent);
        break;
      case 'drop':
        this._dropFromOutside(event as DragEvent);
        break;
    }
  }

  private _over(event: Drag.Event): void {
    const { mimeData } = event;
    if (
      !this._target.isOpen() ||
      !(mimeData.hasData(CELLS) || mimeData.hasData(FILES))
    ) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    event.dropAction = event.proposedAction;
    this._node.classList.add(HELD_OVER);
  }

  private _drop(event: Drag.Event): void {
    this._node.classList.remove(HELD_OVER);
    if (!this._target.isOpen()) {
      return;
    }
    const { mimeData } = event;
    if (mimeData.hasData(CELLS)) {
      this._target.attach(...this._cells(mimeData.getData(CELLS) as Cell[]));
    } else if (mimeData.hasData(FILES)) {
      const paths = mimeData.getData(FILES) as string[];
      this._target.attach(
        ...paths.map((path): IAttachment => {
          const value = this._target.localPath(path);
          const type = value.endsWith('.ipynb') ? 'notebook' : 'file';
          return { type, value };
        })
      );
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    event.dropAction = event.proposedAction;
  }

  private _cells(cells: Cell[]): IAttachment[] {
    const notebook = cells[0]?.parent as Notebook | null;
    const panel = notebook?.parent;
    if (!notebook || !(panel instanceof NotebookPanel)) {
      return [];
    }
    return [
      {
        type: 'notebook',
        value: this._target.localPath(panel.context.path),
        cells: cells.map(cell =>
          cellReference(cell.model, notebook.widgets.indexOf(cell))
        )
      }
    ];
  }

  private _overFromOutside(event: DragEvent): void {
    if (this._target.isOpen() && event.dataTransfer?.types.includes('Files')) {
      event.preventDefault();
      event.dataTransfer.dropEffect = 'copy';
      this._node.classList.add(HELD_OVER);
    }
  }

  private _dropFromOutside(event: DragEvent): void {
    this._node.classList.remove(HELD_OVER);
    const { files, types } = event.dataTransfer ?? {};
    if (!this._target.isOpen() || !types?.includes('Files')) {
      return;
    }
    // For any type of file, keep the browser from navigating to it.
    event.preventDefault();
    this._target.attachImages(imagesAmong(files));
  }

  private _isDisposed = false;
}

const EVENTS = [
  'lm-dragenter',
  'lm-dragover',
  'lm-dragleave',
  'lm-drop',
  'dragover',
  'dragleave',
  'drop'
] as const;
