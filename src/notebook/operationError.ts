/** An operation that was not applied. The notebook is unchanged. */
export class OperationError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly details: { cell_id?: string; source?: string } = {}
  ) {
    super(message);
  }
}
