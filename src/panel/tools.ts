import { TranslationBundle } from '@jupyterlab/translation';
import {
  addBelowIcon,
  deleteIcon,
  editIcon,
  fileIcon,
  folderIcon,
  LabIcon,
  moveDownIcon,
  notebookIcon,
  runIcon,
  saveIcon,
  searchIcon,
  stopIcon,
  textEditorIcon,
  extensionIcon
} from '@jupyterlab/ui-components';

import { compactIcon, variableIcon } from './icons';

export interface IToolFace {
  readonly icon: LabIcon;
  readonly name: string;
  /** Name of the input that is code or file content, shown with highlighting. */
  readonly body: string | null;
  /** Names of inputs; the first one present is the one-line summary. */
  readonly summary: readonly string[];
}

/** Return how to show a tool. An unknown tool is shown by its own name. */
export function toolFace(tool: string, trans: TranslationBundle): IToolFace {
  switch (tool) {
    case 'run_code':
      return face(runIcon, trans.__('Run code'), ['code'], 'code');
    case 'list_variables':
      return face(variableIcon, trans.__('List variables'));
    case 'inspect_variable':
      return face(variableIcon, trans.__('Inspect'), ['expression', 'name']);
    case 'read_notebook':
      return face(notebookIcon, trans.__('Read notebook'), ['query']);
    case 'insert_cell':
      return face(addBelowIcon, trans.__('Insert cell'), ['source'], 'source');
    case 'edit_cell':
      return face(editIcon, trans.__('Edit cell'), ['source'], 'source');
    case 'delete_cell':
      return face(deleteIcon, trans.__('Delete cell'));
    case 'move_cell':
      return face(moveDownIcon, trans.__('Move cell'));
    case 'run_cell':
      return face(runIcon, trans.__('Run cell'));
    case 'wait_for_run':
      return face(runIcon, trans.__('Wait for the run'));
    case 'interrupt_run':
      return face(stopIcon, trans.__('Interrupt the run'));
    case 'list_files':
      return face(folderIcon, trans.__('List files'), ['path']);
    case 'read_file':
      return face(fileIcon, trans.__('Read file'), ['path']);
    case 'search_files':
      return face(searchIcon, trans.__('Search files'), ['pattern']);
    case 'edit_file':
      return face(textEditorIcon, trans.__('Edit file'), ['path'], 'new');
    case 'write_file':
      return face(saveIcon, trans.__('Write file'), ['path'], 'content');
    case 'session_search':
      return face(searchIcon, trans.__('Search session'), ['query']);
    case 'session_read':
      return face(searchIcon, trans.__('Read session'), ['seqs']);
    case 'compact_context':
      return face(compactIcon, trans.__('Compact context'), ['instructions']);
    default:
      return face(extensionIcon, tool);
  }
}

function face(
  icon: LabIcon,
  name: string,
  summary: readonly string[] = [],
  body: string | null = null
): IToolFace {
  return { icon, name, summary, body };
}

/** Return a one-line summary of the call's input. */
export function toolSummary(
  face: IToolFace,
  input: Readonly<Record<string, unknown>>
): string {
  for (const key of face.summary) {
    const value = input[key];
    if (typeof value === 'string' && value.trim() !== '') {
      return face.body === key ? codeLine(value) : firstLine(value);
    }
    if (Array.isArray(value)) {
      return value.join(', ');
    }
  }
  return '';
}

/** Return the first line that is not a comment, cell magic or import, else the first line. */
export function codeLine(code: string): string {
  const telling = lines(code).find(
    line => !/^(#|%%|import\b|from\b)/.test(line)
  );
  return telling ?? firstLine(code);
}

function firstLine(text: string): string {
  return lines(text)[0] ?? '';
}

function lines(text: string): string[] {
  return text
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '');
}
