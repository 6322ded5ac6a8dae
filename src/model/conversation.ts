/**
 * Projection of a session's records and frames to the state that the panel shows. No UI, no I/O.
 *
 * The history depends on records alone, and applying a record is idempotent: applied all at once,
 * one by one or twice, the records give the same result. Transient frames only add what is going on
 * at the moment.
 */
import { IRecord, ServerFrame } from '../api/frames';
import {
  IAssistantMessage,
  ICompactionEnd,
  ISettingsRecord,
  ISnapshotRecord,
  SessionRecord
} from '../api/records';
import { IActivity, IConversation, IQueuedMessage } from './items';
import { LiveMessage, messageItems } from './liveMessage';
import {
  errorItem,
  noteItem,
  removedItem,
  runningCompaction,
  userItem
} from './recordItems';
import { Transcript } from './transcript';

type ProgressFrame = Extract<ServerFrame, { type: 'progress' }>;

/** The activity while the agent is idle. */
export const IDLE: IActivity = {
  running: false,
  phase: 'idle',
  since: 0,
  message: null,
  retry: null
};

export class Conversation {
  /**
   * @param now - Returns the current time in milliseconds since the epoch, for running durations.
   */
  constructor(private readonly _now: () => number = Date.now) {}

  /** Whether the initial replay of the existing records is complete. */
  get ready(): boolean {
    return this._facts.ready;
  }

  /** Whether a turn is running. */
  get running(): boolean {
    return this._activity.running;
  }

  /** Return the state after all frames so far. The object is reused until a frame changes it. */
  snapshot(): IConversation {
    if (this._snapshot === null) {
      this._snapshot = {
        ...this._facts,
        // This runs for every delta; `concat` copies the items of a long session fast.
        items: this._transcript.items.concat(this._live?.items ?? []),
        queue: this._queue,
        activity: this._activity
      };
    }
    return this._snapshot;
  }

  apply(frame: ServerFrame): void {
    switch (frame.type) {
      case 'record':
        if (frame.record.seq > this._facts.lastSeq) {
          this._facts.lastSeq = frame.record.seq;
          this._record(frame.record);
        }
        break;
      case 'ready':
        this._facts.ready = true;
        this._state(frame.state);
        break;
      case 'state':
        this._state(frame.state);
        break;
      case 'delta':
        if (this._live?.id !== frame.message) {
          this._live = new LiveMessage(
            frame.message,
            frame.turn,
            this._messageKey(frame.turn)
          );
        }
        this._live.push(frame);
        this._setActivity({ retry: null, message: null });
        break;
      case 'delta_reset':
        if (this._live?.id === frame.message) {
          this._live = null;
        }
        break;
      case 'progress':
        this._progress(frame);
        break;
      case 'message_complete':
      case 'error':
      case 'lease':
      case 'op':
        return;
    }
    this._snapshot = null;
  }

  private _state(
    state: Extract<ServerFrame, { type: 'state' }>['state']
  ): void {
    this._facts.contextTokens = state.context_tokens ?? null;
    this._facts.threshold = state.threshold ?? 0;
    this._facts.kernelState = state.kernel?.state ?? null;
    this._facts.snapshotsOn = state.snapshots?.on ?? null;
    this._facts.restoring = state.snapshots?.restoring ?? false;
    if (
      state.running !== this._activity.running ||
      state.phase !== this._activity.phase
    ) {
      this._activity = {
        running: state.running,
        phase: state.phase,
        since: this._now(),
        message: null,
        retry: state.phase === 'retry' ? this._activity.retry : null
      };
    }
  }

  private _record(stored: IRecord): void {
    const record = stored as SessionRecord;
    switch (record.kind) {
      case 'session_start':
        this._facts.notebook = record.notebook;
        this._facts.provider = record.provider;
        this._facts.model = record.model;
        this._facts.chosenModel = record.model;
        this._facts.permissionMode = record.permission_mode;
        this._facts.title = record.title ?? null;
        break;
      case 'settings':
        this._settings(record);
        break;
      case 'title':
        this._facts.title = record.title;
        break;
      case 'user_message':
        this._begun = true;
        this._transcript.add(userItem(record));
        break;
      case 'assistant_message':
        this._assistantMessage(record);
        break;
      case 'tool_result':
        this._transcript.endTool(record);
        break;
      case 'run_end':
        this._transcript.endRun(record);
        break;
      case 'approval_request':
        this._transcript.requestApproval(record);
        break;
      case 'approval':
        this._transcript.decideApproval(record);
        break;
      case 'notebook_op':
        this._transcript.changeCell(record);
        break;
      case 'file_change':
        this._transcript.changeFile(record);
        break;
      case 'revert':
        this._transcript.revertTurn(record);
        break;
      case 'turn_end':
        this._live = null;
        this._transcript.endTurn(record);
        break;
      case 'prefire_end':
        this._spend(record.cost_usd);
        break;
      case 'compaction_start':
        this._transcript.add(runningCompaction(record));
        break;
      case 'compaction_end':
        this._compactionEnd(record);
        break;
      case 'snapshot':
        this._snapshotRecord(record);
        break;
      case 'restore':
        this._transcript.addRestore(record);
        break;
      case 'queued':
        this._queue = [
          ...this._queue,
          {
            seq: record.seq,
            text: record.text,
            user: record.user ?? null,
            attachments: record.attachments ?? []
          }
        ];
        break;
      case 'unqueued':
        this._queue = this._queue.filter(
          message => message.seq !== record.queued_seq
        );
        break;
      case 'error':
        this._transcript.add(errorItem(record));
        break;
    }
  }

  private _settings(record: ISettingsRecord): void {
    this._facts.permissionMode =
      record.permission_mode ?? this._facts.permissionMode;
    this._facts.chosenModel = record.model ?? this._facts.chosenModel;
    // The context stays with the model that it was sent to until a compaction rewrites it.
    if (!this._begun) {
      this._facts.model = this._facts.chosenModel;
      this._facts.provider = record.provider ?? this._facts.provider;
    }
    this._facts.notebook = record.notebook ?? this._facts.notebook;
    const note = noteItem(record, this._begun);
    if (note) {
      this._transcript.add(note);
    }
  }

  private _snapshotRecord(record: ISnapshotRecord): void {
    if (record.outcome === 'removed') {
      this._transcript.settleSaved();
      const note = removedItem(record);
      if (note) {
        this._transcript.add(note);
      }
    }
  }

  private _assistantMessage(record: IAssistantMessage): void {
    const turn = record.turn ?? '';
    this._live = null;
    messageItems(
      this._messageKey(turn),
      record.turn ?? null,
      record.content
    ).forEach(item => this._transcript.add(item));
    this._messages = {
      turn,
      count: this._messages.turn === turn ? this._messages.count + 1 : 1
    };
    this._spend(record.cost_usd);
    this._setActivity({ retry: null, message: null });
  }

  private _spend(costUsd: number | undefined): void {
    if (typeof costUsd === 'number') {
      this._facts.costUsd = (this._facts.costUsd ?? 0) + costUsd;
    }
  }

  private _compactionEnd(record: ICompactionEnd): void {
    this._transcript.endCompaction(record);
    this._spend(record.cost_usd);
    this._facts.model = record.model ?? this._facts.model;
    this._facts.provider = record.provider ?? this._facts.provider;
    this._facts.compactionCount =
      record.compaction_count ?? this._facts.compactionCount;
  }

  private _progress(frame: ProgressFrame): void {
    switch (frame.what) {
      case 'tool':
        if (frame.call_id !== undefined) {
          this._transcript.runTool(frame.call_id, {
            outputs: frame.outputs,
            message: frame.message,
            startedAt: this._startOf(frame.started)
          });
        }
        break;
      case 'retry':
        this._setActivity({
          retry: {
            reason: frame.message ?? '',
            attempt: frame.attempt ?? 1,
            maxAttempts: frame.max_attempts ?? 0,
            at: this._now() + (frame.delay_s ?? 0) * 1000
          }
        });
        break;
      default:
        this._setActivity({ message: frame.message ?? null });
    }
  }

  /** Start of a call by the browser's clock, limited to now in case the server's clock is ahead. */
  private _startOf(started: string | undefined): number {
    const time = started === undefined ? NaN : Date.parse(started);
    return Number.isNaN(time) ? this._now() : Math.min(time, this._now());
  }

  private _setActivity(changes: Partial<IActivity>): void {
    this._activity = { ...this._activity, ...changes };
  }

  private _messageKey(turn: string): string {
    const ordinal = this._messages.turn === turn ? this._messages.count : 0;
    return `${turn}.${ordinal}`;
  }

  private _facts = {
    ready: false,
    lastSeq: 0,
    notebook: null as string | null,
    title: null as string | null,
    provider: null as string | null,
    model: null as string | null,
    chosenModel: null as string | null,
    permissionMode: null as string | null,
    contextTokens: null as number | null,
    threshold: 0,
    kernelState: null as string | null,
    snapshotsOn: null as boolean | null,
    restoring: false,
    costUsd: null as number | null,
    compactionCount: 0
  };
  private _begun = false;
  private _transcript = new Transcript();
  private _queue: readonly IQueuedMessage[] = [];
  private _activity: IActivity = IDLE;
  private _live: LiveMessage | null = null;
  /** Number of assistant messages of the current turn so far, for the keys of the next one. */
  private _messages = { turn: '', count: 0 };
  private _snapshot: IConversation | null = null;
}
