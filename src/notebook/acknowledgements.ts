import { ClientFrame } from '../api/frames';

export type Ack = Extract<ClientFrame, { type: 'ack' }>;

/**
 * Maximum number of acknowledgements that are kept. The server sends an operation again only if it
 * has not received its acknowledgement, and it waits for that before it sends the next operation of
 * the same edit or run. So only the last few can be asked for again.
 */
const MOST = 50;

/**
 * Maximum size of the acknowledgements that are kept, in characters of JSON; the last one is kept
 * whatever its size. One of a deletion has the whole cell, and the server sends one deletion at a
 * time.
 */
const LARGEST = 12_000_000;

/** The last acknowledgements, to answer operations that the server sends again. */
export class Acknowledgements {
  get(opId: string): Ack | undefined {
    return this._acks.get(opId)?.ack;
  }

  add(ack: Ack): void {
    const { length } = JSON.stringify(ack);
    this._acks.set(ack.op_id, { ack, length });
    this._length += length;
    for (const [opId, oldest] of this._acks) {
      if (
        opId === ack.op_id ||
        (this._acks.size <= MOST && this._length <= LARGEST)
      ) {
        break;
      }
      this._acks.delete(opId);
      this._length -= oldest.length;
    }
  }

  private _acks = new Map<string, { ack: Ack; length: number }>();
  private _length = 0;
}
