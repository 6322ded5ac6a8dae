import { IRecord, ISessionState, ServerFrame } from './frames';

type DeltaFrame = Extract<ServerFrame, { type: 'delta' }>;
type ProgressFrame = Extract<ServerFrame, { type: 'progress' }>;

/**
 * The frames of a session, reduced to those that a new consumer needs: every record once, and the
 * transient frames that are still valid.
 */
export class FrameBuffer {
  /** `seq` of the last record in the buffer; 0 if there is none. */
  get lastSeq(): number {
    return this._records.length === 0
      ? 0
      : this._records[this._records.length - 1].seq;
  }

  /**
   * `seq` after which to resume the stream. It is one less than `lastSeq`, so that the server sends
   * the last record again: its id shows whether the server's log still matches this buffer.
   */
  get resumeAfter(): number {
    return Math.max(0, this.lastSeq - 1);
  }

  /**
   * Add a frame to the buffer.
   *
   * @returns `new`: pass the frame on; `duplicate`: the record is in the buffer already; `gap`:
   * records are missing before this one, and it was not added; `diverged`: the server has
   * lost records that are in the buffer, and the frame was not added.
   */
  push(frame: ServerFrame): 'new' | 'duplicate' | 'gap' | 'diverged' {
    switch (frame.type) {
      case 'record':
        return this._pushRecord(frame.record);
      case 'delta':
        this._pushDelta(frame);
        break;
      case 'delta_reset':
        this._deltas.delete(frame.message);
        break;
      case 'progress':
        this._progress.set(progressKey(frame), {
          ...(frame.what === 'tool' && this._progress.get(progressKey(frame))),
          ...frame
        });
        break;
      case 'ready':
        if (frame.last_seq < this.lastSeq) {
          return 'diverged';
        }
        this._isReady = true;
        this._state = frame.state;
        break;
      case 'state':
        this._state = frame.state;
        break;
    }
    return 'new';
  }

  /**
   * Complete the outputs of a progress frame, of which the server sends only the changes.
   *
   * @returns `null` if the outputs that they change are not in the buffer.
   */
  whole(frame: ProgressFrame): ProgressFrame | null {
    const { from, tail, ...news } = frame;
    if (from === undefined) {
      return frame;
    }
    const before = this._progress.get(progressKey(frame))?.outputs ?? [];
    if (before.length < from + (tail ? 1 : 0)) {
      return null;
    }
    const outputs = before.slice(0, from);
    if (tail) {
      const output = before[from];
      const text = String(output.text).slice(0, tail.kept) + tail.text;
      outputs.push({ ...output, text });
    }
    return { ...news, outputs: [...outputs, ...(frame.outputs ?? [])] };
  }

  /**
   * Discard the deltas and the progress, which the server sends again on a new connection.
   *
   * @returns the frames that make the consumers discard the deltas too.
   */
  restart(): ServerFrame[] {
    const resets: ServerFrame[] = [];
    for (const [message, frames] of this._deltas) {
      resets.push({ type: 'delta_reset', turn: frames[0].turn, message });
    }
    this._deltas.clear();
    this._progress.clear();
    this._fresh = true;
    return resets;
  }

  replay(): ServerFrame[] {
    const frames: ServerFrame[] = this._records.map(record => ({
      type: 'record',
      record
    }));
    for (const deltas of this._deltas.values()) {
      frames.push(...deltas);
    }
    frames.push(...this._progress.values());
    if (this._state) {
      frames.push(
        this._isReady
          ? { type: 'ready', last_seq: this.lastSeq, state: this._state }
          : { type: 'state', state: this._state }
      );
    }
    return frames;
  }

  private _pushRecord(
    record: IRecord
  ): 'new' | 'duplicate' | 'gap' | 'diverged' {
    if (record.seq <= this.lastSeq) {
      const last = this._records[this._records.length - 1];
      return record.seq === last.seq && record.id !== last.id
        ? 'diverged'
        : 'duplicate';
    }
    // The first record of a connection is the next one that the server has after the last one in
    // this buffer. Records missing before it are lost (a damaged line on disk), so do not retry.
    if (record.seq > this.lastSeq + 1 && !this._fresh) {
      return 'gap';
    }
    this._fresh = false;
    this._records.push(record);
    switch (record.kind) {
      case 'assistant_message':
        this._deltas.clear();
        break;
      case 'tool_result':
      case 'run_end':
        this._forgetCall(record);
        break;
      case 'turn_end':
        this._deltas.clear();
        for (const key of this._progress.keys()) {
          if (!this._going.has(key)) {
            this._progress.delete(key);
          }
        }
        break;
    }
    return 'new';
  }

  /**
   * Discard the progress of a call that has its result, or of a run that has ended. The server
   * does the same.
   */
  private _forgetCall(record: IRecord): void {
    const call = `tool:${record.tool_use_id}`;
    const run = record.run === undefined ? null : `tool:${record.run}`;
    if (run && record.goes_on) {
      this._going.add(run);
    } else if (run || record.kind === 'run_end') {
      this._going.delete(run ?? call);
      this._progress.delete(run ?? call);
    }
    if (!this._going.has(call)) {
      this._progress.delete(call);
    }
  }

  /** Add a delta. Consecutive deltas of the same block are merged into one frame. */
  private _pushDelta(frame: DeltaFrame): void {
    let frames = this._deltas.get(frame.message);
    if (!frames) {
      frames = [];
      this._deltas.set(frame.message, frames);
    }
    const last = frames[frames.length - 1];
    if (
      last &&
      frame.block !== 'start' &&
      last.block === frame.block &&
      last.index === frame.index
    ) {
      frames[frames.length - 1] = {
        ...last,
        text: (last.text ?? '') + (frame.text ?? '')
      };
    } else {
      frames.push(frame);
    }
  }

  private _fresh = true;
  private _records: IRecord[] = [];
  private _deltas = new Map<string, DeltaFrame[]>();
  private _progress = new Map<string, ProgressFrame>();
  /** Keys in `_progress` of calls that have a result while their run is still going on. */
  private _going = new Set<string>();
  private _state: ISessionState | null = null;
  private _isReady = false;
}

function progressKey(frame: ProgressFrame): string {
  return `${frame.what}:${frame.call_id ?? ''}`;
}
