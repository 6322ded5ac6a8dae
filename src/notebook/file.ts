/**
 * The file of an open document, as it is on disk.
 */
import { DocumentRegistry } from '@jupyterlab/docregistry';
import { Contents, ServerConnection } from '@jupyterlab/services';

import { OperationError } from './operationError';

type Context = Pick<
  DocumentRegistry.Context,
  'path' | 'localPath' | 'contentsModel'
>;

/** Tolerance in milliseconds when modification times of the file are compared. */
const CLOCK_MARGIN = 500;

/**
 * Get the file's model, without content, from the contents manager.
 *
 * @throws OperationError with `file_missing` or `save_failed`
 */
export async function lookUp(
  context: Context,
  contents: Pick<Contents.IManager, 'get'>
): Promise<Contents.IModel> {
  try {
    return await contents.get(context.path, { content: false, hash: true });
  } catch (reason) {
    const { localPath } = context;
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

/** Whether the file is another version than the one that the document was loaded from or saved to. */
export function differs(context: Context, disk: Contents.IModel): boolean {
  const here = context.contentsModel;
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

/** Identify a version of the file: by its hash, or if there is none, by its time. */
export function versionOf(disk: Contents.IModel): string {
  return disk.hash ?? disk.last_modified;
}

function isMissing(reason: unknown): boolean {
  return (
    reason instanceof ServerConnection.ResponseError &&
    reason.response.status === 404
  );
}
