/** Why an operation was not applied. Nothing was changed. */
export class OperationError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly details: { cell_id?: string; source?: string } = {}
  ) {
    super(message);
  }
}
