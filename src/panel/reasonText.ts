import { TranslationBundle } from '@jupyterlab/translation';

/**
 * Return why a change of a cell or file failed, or is not saved: translated if the code of the
 * reason is known here, else the server's text.
 */
export function reasonText(
  entry: {
    readonly op?: string;
    readonly code: string | null;
    readonly reason: string | null;
  },
  trans: TranslationBundle
): string {
  switch (entry.code) {
    case 'changed_since':
      return trans.__('It was changed since.');
    case 'deleted_since':
      return trans.__('It was deleted since.');
    case 'moved_since':
      return trans.__('It was moved since.');
    case 'changed_between':
      return trans.__('Someone else changed it while the agent did.');
    case 'not_kept':
      return trans.__('Its earlier content was not kept.');
    case 'cell_conflict':
      return entry.op === 'run_cell'
        ? trans.__('You changed this cell in the meantime; it was not run.')
        : trans.__(
            'You changed this cell in the meantime; your version was kept.'
          );
    case 'cell_unread':
      return trans.__(
        'The agent has not read the cell since the server was started. Nothing was done.'
      );
    case 'cell_not_found':
      return trans.__('There is no such cell.');
    case 'cell_locked':
      return trans.__(
        'The cell is locked by its author, in its metadata. Nothing was done.'
      );
    case 'cell_deleted':
      return trans.__(
        'The cell was deleted while it ran. Its output is kept only here.'
      );
    case 'cell_not_in_page':
      return trans.__(
        'The cell is not in the notebook that is open, whose unsaved changes could not be merged with the file. Save the notebook to choose which version to keep.'
      );
    case 'outputs_in_file_only':
      return trans.__(
        'The output is in the file, but not in the notebook that is open: its unsaved changes could not be merged with the file. Save the notebook to choose which version to keep.'
      );
    case 'outputs_of_earlier_source':
      return trans.__(
        'The source was changed while the cell ran: the output is that of the source that was run.'
      );
    case 'save_conflict':
      return trans.__(
        'Not saved: the file was changed by another program or in another tab. Save the notebook to choose which version to keep.'
      );
    case 'save_failed':
      return trans.__('Not saved: %1', entry.reason ?? '');
    case 'file_missing':
      return trans.__(
        'Not saved: the file is no longer there. If it was moved, open it where it is now and attach this session to it.'
      );
    default:
      return entry.reason ?? '';
  }
}
