/**
 * The attachments of a message. `file` and `notebook` have the same shape as in `@jupyter/chat`;
 * the cells of a notebook can also carry their content in the browser.
 */
import type { IOutput } from './frames';

/** A selected range of a text, as 0-based line and column. */
export interface ISelection {
  start: [number, number];
  end: [number, number];
  /** Selected text; absent in records. */
  content?: string;
}

export interface IAttachedCell {
  id: string;
  input_type?: 'code' | 'markdown' | 'raw';
  /** Position in the notebook, from 0. */
  index?: number;
  execution_count?: number | null;
  /** If absent, the server reads the cell. */
  source?: string;
  outputs?: IOutput[];
  selection?: ISelection;
  /** In records only. */
  first_line?: string;
}

interface IBase {
  /** Path of a file or notebook, else a name. */
  value: string;
  /** The mention of this attachment in the text, for example `@df`. */
  mention?: string;
}

/** A file or folder under the server's root, or the selected part of a file. */
export interface IFileAttachment extends IBase {
  type: 'file';
  mimetype?: string;
  selection?: ISelection;
}

/** Cells of a notebook; all of them if `cells` is absent. */
export interface INotebookAttachment extends IBase {
  type: 'notebook';
  cells?: IAttachedCell[];
}

/** A cell that raised an error. */
export interface IErrorAttachment extends IBase {
  type: 'error';
  cells: IAttachedCell[];
}

/** A variable of the kernel; the server inspects it when the message is sent. */
export interface IVariableAttachment extends IBase {
  type: 'variable';
}

export interface IImageAttachment extends IBase {
  type: 'image';
  mimetype: string;
  /** Base64; absent in records. */
  data?: string;
  /** In records only: index of the image's block in the content of the message. */
  content_index?: number;
}

export type IAttachment =
  | IFileAttachment
  | INotebookAttachment
  | IErrorAttachment
  | IVariableAttachment
  | IImageAttachment;

/** Summary of a variable of a notebook's kernel. */
export interface IVariable {
  name: string;
  type: string;
  kind: 'data' | 'function' | 'class' | 'module';
  repr: string;
  shape?: string;
}
