/**
 * What travels on a session's stream, and the records it carries.
 *
 * Records are the server's truth; `delta`, `progress` and `state` frames are transient.
 */

export interface IBlock {
  type: string;
  [key: string]: any;
}

/** A notebook output (nbformat 4); an image may stand as `{content_index}` into `content`. */
export interface IOutput {
  output_type: string;
  [key: string]: any;
}

export interface IRecord {
  seq: number;
  id: string;
  ts: string;
  kind: string;
  user?: string;
  turn?: string;
  [key: string]: any;
}

export type ServerFrame =
  /** One record; first those after `after`, then live ones. */
  | { type: 'record'; record: IRecord }
  /** The replay is over; what follows is live. */
  | { type: 'ready'; last_seq: number; state: ISessionState }
  /** Part of the message being streamed. `start` carries the block, the others text to append. */
  | {
      type: 'delta';
      turn: string;
      message: string;
      index: number;
      block: 'start' | 'text' | 'thinking' | 'input';
      start?: IBlock;
      text?: string;
    }
  /** What was streamed of this message is void (retry, interrupt before any text). */
  | { type: 'delta_reset'; turn: string; message: string }
  /** A tool call, retry, compaction or kernel has something to say while it goes on. */
  | {
      type: 'progress';
      what: 'tool' | 'retry' | 'compaction' | 'kernel' | 'wait';
      turn?: string;
      call_id?: string;
      /**
       * Outputs of a running tool call so far. Holders of a stream get all of them; the server
       * sends what is new: with `from` so many of the frame before stay, and `outputs` replace
       * what followed. With `tail` the output behind those goes on as well, with the first `kept`
       * characters of its text and then `text`.
       */
      outputs?: IOutput[];
      from?: number;
      tail?: { kept: number; text: string };
      started?: string;
      message?: string;
      attempt?: number;
      max_attempts?: number;
      delay_s?: number;
    }
  /** The final reply of a turn is complete; compaction and checkpoint may still follow. */
  | { type: 'message_complete'; turn: string; seq: number }
  | { type: 'state'; state: ISessionState }
  /**
   * The client holds, or lost, the lease of a notebook. To the holder: `written` is the version of
   * the file that the server alone has made of the one named in the claim; `running` are the cells
   * that it runs.
   */
  | {
      type: 'lease';
      notebook: string;
      held: boolean;
      written?: string | null;
      running?: string[];
    }
  /** Apply this to the open notebook and acknowledge it. */
  | { type: 'op'; op_id: string; notebook: string; op: INotebookOperation }
  | { type: 'error'; code: string; message: string; hint?: string }
  /** From the connection itself: what came so far is void, all records follow anew. */
  | { type: 'reset' };

export interface ISessionState {
  running: boolean;
  /** `idle`, `model`, `tool`, `approval`, `compaction`, `retry` or `wait`. */
  phase: string;
  turn: string | null;
  /** Size of the context in tokens, `null` if unknown. */
  context_tokens: number | null;
  threshold: number;
  kernel: { id: string | null; state: string };
  snapshots?: {
    /** The notebook's variables are saved. */
    on: boolean;
    /** When they come back by themselves; `null`: as the server is configured. */
    restore: string | null;
    /** They come back right now, outside of any turn. */
    restoring: boolean;
  };
}

export type INotebookOperation =
  | {
      op: 'insert_cell';
      cell_id: string;
      source: string;
      cell_type: 'code' | 'markdown' | 'raw';
      /** Cell it goes behind; `null`: at the end. `""`: at the top. */
      after: string | null;
      /** What a cell that comes back had beside its source (nbformat). */
      cell?: Record<string, unknown>;
    }
  | {
      op: 'edit_cell';
      cell_id: string;
      source: string;
      /** SHA-256 hex of the source this edit expects. */
      expected_hash: string;
      /** What the cell shows from then on, where that is undone with the source. */
      outputs?: IOutput[];
      execution_count?: number | null;
      trusted?: boolean;
    }
  | { op: 'delete_cell'; cell_id: string; expected_hash: string }
  /** `after` as for `insert_cell`, but always given. */
  | { op: 'move_cell'; cell_id: string; after: string }
  /**
   * The server is about to run the cell: show it as running. What it shows else stays until the
   * first `run_outputs`, which tells that the kernel has begun. Without a hash the run is under way
   * already, and this client is new to it.
   */
  | {
      op: 'run_start';
      cell_id: string;
      run_id: string;
      expected_hash: string | null;
    }
  /** Outputs as they are now; `from` outputs stay, what follows them is replaced. */
  | {
      op: 'run_outputs';
      cell_id: string;
      run_id: string;
      from: number;
      outputs: IOutput[];
    }
  /** Without any `run_outputs` before it the kernel never began: the cell is as it was. */
  | {
      op: 'run_end';
      cell_id: string;
      run_id: string;
      execution_count: number | null;
      status: string;
    }
  /**
   * What a run has put out behind its end. It goes into the cell only if that still shows the run,
   * which its execution count tells. `base` is how many outputs the server thinks there are;
   * `updates` are displays among them that show something else now. With an `ending`, which the
   * last of them (a stream) ends with, the text of `outputs[0]` takes the place of that.
   */
  | {
      op: 'late_outputs';
      cell_id: string;
      execution_count: number | null;
      base: number;
      clear: boolean;
      updates: { index: number; data: any; metadata: any }[];
      ending: string | null;
      outputs: IOutput[];
    }
  /**
   * What the notebook holds now (unsaved edits included): one cell, or all from position `start`
   * on, as many as fit into one frame.
   */
  | { op: 'read'; cell_id: string }
  | { op: 'read'; start: number }
  | { op: 'save' };

export type ClientFrame =
  /** `client`: this page, the same for all its connections and after a reconnection. */
  | {
      type: 'lease';
      action: 'claim' | 'release';
      notebook: string;
      client?: string;
      /** Hash of the file that the page shows. */
      version?: string;
    }
  | {
      type: 'ack';
      op_id: string;
      ok: boolean;
      /**
       * For `read`: `{cells, next}`, the cells as in nbformat 4.5 with `index` and `running` and
       * with shortened outputs; `next` is the position to go on from, `null` at the end. For
       * edits and `run_start`: `{before, after}`, each `{source, cell_type, index}` or `null`. For
       * `late_outputs` `after` also has `outputs`, how many there are, and `execution_count`.
       */
      result?: any;
      /** `cell_id`: the cell that is missing. `source`: what a cell in conflict holds. */
      error?: {
        code: string;
        message: string;
        cell_id?: string;
        source?: string;
      };
    };
