/**
 * Labels of attachments.
 */
import { PathExt } from '@jupyterlab/coreutils';
import { TranslationBundle } from '@jupyterlab/translation';

import { IAttachedCell, IAttachment, ISelection } from '../api/attachments';
import { CandidateKind } from './candidates';

export interface IAttachmentText {
  readonly kind: CandidateKind | 'notebook' | 'image';
  /** Label that is short enough for a chip. */
  readonly label: string;
  /** Details, for a tooltip. */
  readonly title: string;
}

export function describeAttachment(
  attachment: IAttachment,
  trans: TranslationBundle
): IAttachmentText {
  const { value } = attachment;
  switch (attachment.type) {
    case 'variable':
      return {
        kind: 'variable',
        label: value,
        title: trans.__('Variable %1', value)
      };
    case 'image':
      return { kind: 'image', label: value, title: value };
    case 'error':
      return {
        kind: 'error',
        label: trans.__(
          'Error in cell %1',
          (attachment.cells[0].index ?? 0) + 1
        ),
        title: titleOf(value, attachment.cells)
      };
    case 'file':
      return fileText(value, attachment.selection, attachment.mimetype, trans);
    case 'notebook':
      return cellsText(value, attachment.cells ?? [], trans);
  }
}

/** The labels of several attachments, on one line. */
export function attachmentLabels(
  attachments: readonly IAttachment[],
  trans: TranslationBundle
): string {
  return attachments
    .map(attachment => describeAttachment(attachment, trans).label)
    .join(', ');
}

/** `line 3`, `lines 3–5`. */
export function linesOf(
  selection: ISelection,
  trans: TranslationBundle
): string {
  const [first, last] = [selection.start[0] + 1, selection.end[0] + 1];
  return first === last
    ? trans.__('line %1', first)
    : trans.__('lines %1–%2', first, last);
}

function fileText(
  path: string,
  selection: ISelection | undefined,
  mimetype: string | undefined,
  trans: TranslationBundle
): IAttachmentText {
  const name = PathExt.basename(path) || '/';
  if (selection) {
    return {
      kind: 'selection',
      label: `${name}, ${linesOf(selection, trans)}`,
      title: path
    };
  }
  return mimetype === 'inode/directory'
    ? { kind: 'folder', label: `${name}/`, title: path }
    : { kind: 'file', label: name, title: path };
}

function cellsText(
  path: string,
  cells: readonly IAttachedCell[],
  trans: TranslationBundle
): IAttachmentText {
  const title = titleOf(path, cells);
  if (cells.length === 0) {
    return { kind: 'notebook', label: PathExt.basename(path), title };
  }
  if (cells.length > 1) {
    return {
      kind: 'cell',
      label: trans._n('%1 cell', '%1 cells', cells.length),
      title
    };
  }
  const [{ selection }] = cells;
  const name = cellName(cells[0], trans);
  return selection
    ? {
        kind: 'selection',
        label: `${name}, ${linesOf(selection, trans)}`,
        title
      }
    : { kind: 'cell', label: name, title };
}

function cellName(cell: IAttachedCell, trans: TranslationBundle): string {
  return cell.index === undefined
    ? trans.__('cell %1', cell.id)
    : trans.__('Cell %1', cell.index + 1);
}

function titleOf(path: string, cells: readonly IAttachedCell[]): string {
  return [path, ...cells.map(({ first_line }) => first_line ?? '')]
    .filter(line => line !== '')
    .join('\n');
}
