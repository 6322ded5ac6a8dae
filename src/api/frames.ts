/**
 * The frames of a session's stream, and the records that they carry.
 *
 * Records are the source of truth; `delta`, `progress` and `state` frames are transient.
 */

export interface IBlock {
  type: string;
  [key: string]: any;
}

/** A notebook output (nbformat 4). Image data may be replaced by a `{content_index}` reference. */
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
  /** One record: first those after the requested `seq`, then live ones. */
  | { type: 'record'; record: IRecord }
  /** The replay is complete; the frames that follow are live. */
  | { type: 'ready'; last_seq: number; state: ISessionState }
  /** Part of the message being streamed: `start` carries a block, the others text to append. */
  | {
      type: 'delta';
      turn: string;
      message: string;
      index: number;
      block: 'start' | 'text' | 'thinking' | 'input';
      start?: IBlock;
      text?: string;
    }
  /** Discard the deltas of this message (after a retry, or an interrupt before any text). */
  | { type: 'delta_reset'; turn: string; message: string }
  /** Progress of a tool call, a retry, a compaction or the kernel. */
  | {
      type: 'progress';
      what: 'tool' | 'retry' | 'compaction' | 'kernel' | 'wait';
      turn?: string;
      call_id?: string;
      /**
       * Outputs of a running tool call so far. The server sends only the changes, and consumers of
       * a stream get all outputs: the first `from` outputs of the previous frame are kept, and
       * `outputs` replace the rest. With `tail`, output number `from` of the previous frame is
       * kept as well; its text becomes its first `kept` characters followed by `text`.
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
  /** The final reply of a turn is complete; compaction may still follow. */
  | { type: 'message_complete'; turn: string; seq: number }
  | { type: 'state'; state: ISessionState }
  /**
   * Whether the client holds the lease of a notebook: in answer to a claim, whenever that changes,
   * and whenever the server or another client has written the file. `written` is the version of the
   * file if only the server and clients have changed it since the version that this client shows;
   * `running` are the ids of the cells that the server is running.
   */
  | {
      type: 'lease';
      notebook: string;
      held: boolean;
      written?: string | null;
      running?: string[];
    }
  /** An operation to apply to the open notebook and to acknowledge. */
  | { type: 'op'; op_id: string; notebook: string; op: INotebookOperation }
  | { type: 'error'; code: string; message: string; hint?: string }
  /** Sent by the connection itself: discard all earlier frames; all records follow again. */
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
    /** Whether the notebook's variables are saved. */
    on: boolean;
    /** When variables are restored automatically; `null`: as configured on the server. */
    restore: string | null;
    /** Whether variables are being restored right now, outside of a turn. */
    restoring: boolean;
  };
}

export type INotebookOperation =
  | {
      op: 'insert_cell';
      cell_id: string;
      source: string;
      cell_type: 'code' | 'markdown' | 'raw';
      /** Id of the cell to insert after; `null`: at the end; `""`: at the top. */
      after: string | null;
      /** The other fields (nbformat) of a deleted cell that is inserted again. */
      cell?: Record<string, unknown>;
    }
  | {
      op: 'edit_cell';
      cell_id: string;
      source: string;
      /** SHA-256 hex of the source this edit expects. */
      expected_hash: string;
      /** Whether this undoes an earlier operation, so that locks of the cell do not count. */
      undo?: boolean;
      /** Outputs that the cell gets, if they are reverted together with the source. */
      outputs?: IOutput[];
      execution_count?: number | null;
      trusted?: boolean;
    }
  | {
      op: 'delete_cell';
      cell_id: string;
      expected_hash: string;
      undo?: boolean;
    }
  /** `after` as for `insert_cell`, but never `null`. */
  | { op: 'move_cell'; cell_id: string; after: string }
  /**
   * The server is about to run the cell: show it as running. Its old outputs stay until the first
   * `run_outputs`, which means that the kernel has started the run. Without a hash the run has
   * started already, before this client got the lease.
   */
  | {
      op: 'run_start';
      cell_id: string;
      run_id: string;
      expected_hash: string | null;
    }
  /** The current outputs: the first `from` outputs are kept, and `outputs` replace the rest. */
  | {
      op: 'run_outputs';
      cell_id: string;
      run_id: string;
      from: number;
      outputs: IOutput[];
    }
  /** The run has ended. Without an earlier `run_outputs` it never started: restore the cell. */
  | {
      op: 'run_end';
      cell_id: string;
      run_id: string;
      execution_count: number | null;
      status: string;
    }
  /**
   * Outputs that a run produced after its end. They are applied only if the cell still shows that
   * run, as its execution count tells. `base` is the number of outputs that the server expects in
   * the cell; `updates` are displays among them whose content has changed. If `ending` is given,
   * the last of those outputs is a stream whose text ends with `ending`, and the text of
   * `outputs[0]` replaces that ending.
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
   * Read the current content of the notebook, unsaved edits included: one cell, or as many cells
   * from position `start` on as fit into one frame.
   */
  | { op: 'read'; cell_id: string }
  | { op: 'read'; start: number }
  | { op: 'save' };

export type ErrorFrame = Extract<ServerFrame, { type: 'error' }>;

export type ClientFrame =
  /** `client` identifies this page; it is the same on all its connections and reconnections. */
  | {
      type: 'lease';
      /** `saved` and `loaded`: the page shows another version of the file from now on. */
      action: 'claim' | 'release' | 'saved' | 'loaded';
      notebook: string;
      client?: string;
      /** Hash of the version of the file that the page shows. */
      version?: string;
    }
  | {
      type: 'ack';
      op_id: string;
      ok: boolean;
      /**
       * For `read`: `{cells, next}`, where `cells` are nbformat 4.5 cells with `index` and
       * `running` and with shortened outputs, and `next` is the position to continue from, `null`
       * at the end. For edits and `run_start`: `{before, after}`, each
       * `{source, cell_type, index}` or `null`. For `late_outputs`, `after` also has `outputs`, the
       * number of outputs, and `execution_count`.
       */
      result?: any;
      /** `cell_id`: id of the missing cell. `source`: current source of the cell in conflict. */
      error?: {
        code: string;
        message: string;
        cell_id?: string;
        source?: string;
        /** Whether the page lacks changes of the file, which it could not merge. */
        behind?: boolean;
      };
    };
