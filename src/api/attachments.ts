/**
 * What is attached to a message. `file` and `notebook` have the shape they have in
 * `@jupyter/chat`; a notebook's cells can carry what the browser has of them.
 */
import type { IOutput } from './frames';

/** Part of a text; line and column count from 0. */
export interface ISelection {
  start: [number, number];
  end: [number, number];
  /** Left out in records. */
  content?: string;
}

export interface IAttachedCell {
  id: string;
  input_type?: 'code' | 'markdown' | 'raw';
  /** Position, from 0. */
  index?: number;
  execution_count?: number | null;
  /** Left out: the server reads the cell. */
  source?: string;
  outputs?: IOutput[];
  selection?: ISelection;
  /** In records only. */
  first_line?: string;
}

interface IBase {
  /** Path, or name. */
  value: string;
  /** What stands for it in the text, e.g. `@df`. */
  mention?: string;
}

/** A file or folder below the server's root, or what is selected in it. */
export interface IFileAttachment extends IBase {
  type: 'file';
  mimetype?: string;
  selection?: ISelection;
}

/** Cells of a notebook; all of them if none are named. */
export interface INotebookAttachment extends IBase {
  type: 'notebook';
  cells?: IAttachedCell[];
}

/** A cell whose run has failed. */
export interface IErrorAttachment extends IBase {
  type: 'error';
  cells: IAttachedCell[];
}

/** A variable of the kernel; the server looks at it when the message is sent. */
export interface IVariableAttachment extends IBase {
  type: 'variable';
}

export interface IImageAttachment extends IBase {
  type: 'image';
  mimetype: string;
  /** Base64; left out in records. */
  data?: string;
  /** In records only: which block of the message's content it is. */
  content_index?: number;
}

export type IAttachment =
  | IFileAttachment
  | INotebookAttachment
  | IErrorAttachment
  | IVariableAttachment
  | IImageAttachment;

/** A variable of a notebook's kernel, in short. */
export interface IVariable {
  name: string;
  type: string;
  kind: 'data' | 'function' | 'class' | 'module';
  repr: string;
  shape?: string;
}
