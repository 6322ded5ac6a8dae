import { JupyterFrontEnd } from '@jupyterlab/application';
import { ICellModel } from '@jupyterlab/cells';
import { CodeEditor } from '@jupyterlab/codeeditor';
import { PathExt } from '@jupyterlab/coreutils';
import { IDocumentWidget } from '@jupyterlab/docregistry';
import { FileEditor, IEditorTracker } from '@jupyterlab/fileeditor';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Contents } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';

import { IAttachment, ISelection } from '../api/attachments';
import { PrimeApi } from '../api/rest';
import { ICandidate } from './candidates';
import { cellReference, errorOf, filled, firstLine, lastError } from './cells';
import { linesOf } from './describe';
import { selectionOf } from './selection';
import { mentionOf } from './text';

/** Sources of candidates for a mention: the current notebook, its kernel, and the files. */
export interface IMentionSources {
  /** Return selections, the last error, and the cells of the current notebook. */
  here(): ICandidate[];
  /** List the variables of the notebook's kernel, newest first. */
  variables(): Promise<ICandidate[]>;
  /** List the files in the folder of the query, relative to the notebook and to the root. */
  files(query: string): Promise<ICandidate[]>;
  /** Fill in the cells of an attachment from an open notebook. */
  fill(attachment: IAttachment): IAttachment;
}

export class MentionSources implements IMentionSources {
  constructor(private readonly _options: MentionSources.IOptions) {}

  here(): ICandidate[] {
    const panel = this._panel;
    if (!panel?.model) {
      return this._fileSelection();
    }
    const { trans } = this._options;
    const path = this._path(panel);
    const cells = [...panel.model.cells];
    const active = panel.content.activeCellIndex;
    const failed = lastError(cells);
    return [
      ...this._fileSelection(),
      ...this._cellSelection(panel),
      ...(failed < 0 ? [] : [this._error(path, cells[failed], failed)]),
      ...cells.map((cell, index): ICandidate => {
        const line = firstLine(cell);
        return {
          kind: 'cell',
          label: trans.__('Cell %1', index + 1),
          detail: line || trans.__('(empty)'),
          mention: `@cell-${index + 1}`,
          attachment: {
            type: 'notebook',
            value: path,
            cells: [cellReference(cell, index)]
          },
          words: [`cell-${index + 1}`, `${index + 1}`, cell.id],
          content: line,
          weight: -Math.abs(index - active)
        };
      })
    ];
  }

  async variables(): Promise<ICandidate[]> {
    const panel = this._panel;
    // Do not query the server if the notebook has no kernel.
    if (!panel?.sessionContext.session?.kernel) {
      return [];
    }
    const variables = await this._options.api.variables(this._path(panel));
    return variables
      .filter(({ kind }) => kind !== 'module')
      .reverse()
      .map(({ name, type, kind, shape, repr }) => ({
        kind: 'variable',
        label: name,
        detail:
          kind !== 'data'
            ? kind
            : shape
              ? `${type} ${shape.startsWith('(') ? shape : `[${shape}]`}`
              : `${type} ${repr}`,
        mention: `@${name}`,
        attachment: { type: 'variable', value: name },
        words: [name],
        // For an empty query, data ranks before functions and classes.
        weight: kind === 'data' ? 1 : 0
      }));
  }

  async files(query: string): Promise<ICandidate[]> {
    const notebook = this._panel ? this._path(this._panel) : '';
    const folder = PathExt.dirname(notebook);
    const typed = query.slice(0, query.lastIndexOf('/') + 1).replace(/\/$/, '');
    const folders = new Set([PathExt.join(folder, typed), typed]);
    const found = await Promise.all(
      [...folders].map(path => this._list(path, query.endsWith('/')))
    );
    return found
      .flat()
      .filter(({ path }) => path !== notebook)
      .map(({ path, type }) => this._file(path, type, folder));
  }

  fill(attachment: IAttachment): IAttachment {
    const panel = this._options.tracker.find(
      candidate => this._path(candidate) === attachment.value
    );
    return filled(attachment, [...(panel?.model?.cells ?? [])]);
  }

  private _error(path: string, cell: ICellModel, index: number): ICandidate {
    const { trans } = this._options;
    const error = errorOf(cell)!;
    return {
      kind: 'error',
      label: trans.__('Last error'),
      detail: `${error.ename}: ${error.evalue}`,
      mention: '@error',
      attachment: {
        type: 'error',
        value: path,
        cells: [cellReference(cell, index)]
      },
      words: ['error', 'last error', error.ename],
      content: error.evalue
    };
  }

  private _cellSelection(panel: NotebookPanel): ICandidate[] {
    const { activeCell, activeCellIndex } = panel.content;
    const selection = activeCell && selected(activeCell.editor);
    if (!activeCell || !selection) {
      return [];
    }
    const { trans } = this._options;
    return [
      this._selection(
        `${trans.__('Cell %1', activeCellIndex + 1)}, ${linesOf(selection, trans)}`,
        {
          type: 'notebook',
          value: this._path(panel),
          cells: [
            { ...cellReference(activeCell.model, activeCellIndex), selection }
          ]
        }
      )
    ];
  }

  /** Return the selection of the current file editor, even if the panel has the focus. */
  private _fileSelection(): ICandidate[] {
    const { shell, editors, contents, trans } = this._options;
    const widget = shell.currentWidget;
    if (!widget || !editors?.has(widget)) {
      return [];
    }
    const { content, context } = widget as IDocumentWidget<FileEditor>;
    const selection = selected(content.editor);
    const value = contents.localPath(context.path);
    return selection
      ? [
          this._selection(
            `${PathExt.basename(value)}, ${linesOf(selection, trans)}`,
            { type: 'file', value, selection }
          )
        ]
      : [];
  }

  private _selection(detail: string, attachment: IAttachment): ICandidate {
    return {
      kind: 'selection',
      label: this._options.trans.__('Selection'),
      detail,
      mention: '@selection',
      attachment,
      words: ['selection']
    };
  }

  private _file(path: string, type: string, near: string): ICandidate {
    const isFolder = type === 'directory';
    // The path of a folder that the query descended into ends with a slash: attach that folder.
    const isWhole = path.endsWith('/');
    const value = path.replace(/\/$/, '');
    // Name files below the notebook's folder by the relative path that its code uses.
    const relative =
      near !== '' && value.startsWith(`${near}/`)
        ? value.slice(near.length + 1)
        : value;
    const name = PathExt.basename(value);
    return {
      kind: isFolder ? 'folder' : 'file',
      label: isFolder ? `${name}/` : name,
      detail: isWhole
        ? this._options.trans.__('The whole folder')
        : PathExt.dirname(relative),
      mention: mentionOf(relative, isFolder && !isWhole),
      attachment:
        isFolder && !isWhole
          ? null
          : {
              type: 'file',
              value,
              ...(isFolder ? { mimetype: 'inode/directory' } : {})
            },
      words: isWhole ? [path, `${relative}/`] : [name, relative, value]
    };
  }

  /**
   * List a folder, preceded by the folder itself if the query descended into it; empty if the
   * folder does not exist.
   */
  private async _list(
    path: string,
    goneInto: boolean
  ): Promise<{ path: string; type: string }[]> {
    try {
      const folder = await this._options.contents.get(path, {
        type: 'directory',
        content: true
      });
      const itself =
        goneInto && path !== ''
          ? [{ path: `${path}/`, type: 'directory' }]
          : [];
      return [...itself, ...(folder.content as Contents.IModel[])];
    } catch {
      return [];
    }
  }

  private get _panel(): NotebookPanel | null {
    return this._options.tracker.currentWidget;
  }

  private _path(panel: NotebookPanel): string {
    return this._options.contents.localPath(panel.context.path);
  }
}

export namespace MentionSources {
  export interface IOptions {
    tracker: INotebookTracker;
    editors: IEditorTracker | null;
    shell: JupyterFrontEnd.IShell;
    contents: Contents.IManager;
    api: PrimeApi;
    trans: TranslationBundle;
  }
}

function selected(editor: CodeEditor.IEditor | null): ISelection | null {
  if (!editor) {
    return null;
  }
  const { start, end } = editor.getSelection();
  return selectionOf(
    editor.model.sharedModel.getSource(),
    editor.getOffsetAt(start),
    editor.getOffsetAt(end)
  );
}
