interface IEntry<T> {
  readonly message: T;
  readonly resolve: (sessionId: string) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Sends the messages of a notebook one after another, in one session: while the first is on its
 * way, there may be no session yet that the next could be queued in.
 */
export class Outbox<T> {
  /**
   * @param _send - Sends a message and returns the id of its session. `before` is the session of
   * the message that was sent just before it; `null` if there was none.
   */
  constructor(
    private readonly _send: (
      message: T,
      before: string | null
    ) => Promise<string>
  ) {}

  /**
   * Send a message after those of the notebook that are still on their way. If one of them fails,
   * those behind it are not sent and reject with the same reason, the last one first: put back one
   * before the other, they are in order again.
   */
  send(notebook: string | null, message: T): Promise<string> {
    return new Promise((resolve, reject) => {
      const entry = { message, resolve, reject };
      const entries = this._entries.get(notebook);
      if (entries) {
        entries.push(entry);
      } else {
        const first = [entry];
        this._entries.set(notebook, first);
        void this._run(notebook, first);
      }
    });
  }

  /** Whether messages of the notebook are on their way. */
  isSending(notebook: string | null): boolean {
    return this._entries.has(notebook);
  }

  private async _run(
    notebook: string | null,
    entries: IEntry<T>[]
  ): Promise<void> {
    let session: string | null = null;
    try {
      while (entries.length > 0) {
        session = await this._send(entries[0].message, session);
        entries.shift()!.resolve(session);
      }
    } catch (reason) {
      for (const entry of entries.splice(0).reverse()) {
        entry.reject(reason);
      }
    } finally {
      // At once: what is sent later must not be added to entries that nobody sends.
      this._entries.delete(notebook);
    }
  }

  private _entries = new Map<string | null, IEntry<T>[]>();
}
