/**
 * Records and frames in, what the panel shows out. No UI and no I/O.
 *
 * Records alone decide what is shown of the past: applied in one go, one by one or twice over they
 * come to the same. Transient frames only fill in what goes on at the moment.
 */
import { IRecord, ServerFrame } from '../api/frames';
import {
  IApproval,
  IApprovalRequest,
  IAssistantMessage,
  ICompactionEnd,
  INotebookOp,
  IRestore,
  ISettingsRecord,
  IToolResult,
  ITurnEnd,
  SessionRecord
} from '../api/records';
import {
  IActivity,
  IConversation,
  IQueuedMessage,
  IToolItem,
  Item,
  ToolStatus
} from './items';
import { LiveMessage, messageItems } from './liveMessage';
import {
  decided,
  endedCompaction,
  endedTool,
  errorItem,
  noteItem,
  openApproval,
  restoreItem,
  runningCompaction,
  stoppedTool,
  turnItem,
  userItem,
  voided
} from './recordItems';

type ProgressFrame = Extract<ServerFrame, { type: 'progress' }>;

/** Nothing goes on. */
export const IDLE: IActivity = {
  running: false,
  phase: 'idle',
  since: 0,
  message: null,
  retry: null
};

/** A call in one of these has no result yet. */
const OPEN: readonly ToolStatus[] = [
  'writing',
  'waiting',
  'approval',
  'running'
];

export class Conversation {
  /**
   * @param now - Milliseconds since the epoch; durations of what goes on are told from it.
   */
  constructor(private readonly _now: () => number = Date.now) {}

  /** All records there were when the stream was opened are in. */
  get ready(): boolean {
    return this._facts.ready;
  }

  /** A turn goes on. */
  get running(): boolean {
    return this._activity.running;
  }

  /** The state after all frames so far. The same object until a frame changes something. */
  snapshot(): IConversation {
    if (this._snapshot === null) {
      this._snapshot = {
        ...this._facts,
        items: this._live
          ? [...this._items, ...this._live.items]
          : [...this._items],
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
        this._add(userItem(record));
        break;
      case 'assistant_message':
        this._assistantMessage(record);
        break;
      case 'tool_result':
        this._toolResult(record);
        break;
      case 'approval_request':
        this._approvalRequest(record);
        break;
      case 'approval':
        this._approval(record);
        break;
      case 'notebook_op':
        this._notebookOp(record);
        break;
      case 'turn_end':
        this._turnEnd(record);
        break;
      case 'compaction_start':
        this._add(runningCompaction(record));
        break;
      case 'compaction_end':
        this._compactionEnd(record);
        break;
      case 'restore':
        this._restore(record);
        break;
      case 'queued':
        this._queue = [
          ...this._queue,
          { seq: record.seq, text: record.text, user: record.user ?? null }
        ];
        break;
      case 'unqueued':
        this._queue = this._queue.filter(
          message => message.seq !== record.queued_seq
        );
        break;
      case 'error':
        this._add(errorItem(record));
        break;
    }
  }

  private _settings(record: ISettingsRecord): void {
    this._facts.permissionMode =
      record.permission_mode ?? this._facts.permissionMode;
    this._facts.chosenModel = record.model ?? this._facts.chosenModel;
    // What the model was sent stays with that model until a compaction rewrites it.
    if (!this._begun) {
      this._facts.model = this._facts.chosenModel;
      this._facts.provider = record.provider ?? this._facts.provider;
    }
    this._facts.notebook = record.notebook ?? this._facts.notebook;
    this._add(noteItem(record, this._begun));
  }

  private _assistantMessage(record: IAssistantMessage): void {
    const turn = record.turn ?? '';
    this._live = null;
    messageItems(
      this._messageKey(turn),
      record.turn ?? null,
      record.content
    ).forEach(item => this._add(item));
    this._messages = {
      turn,
      count: this._messages.turn === turn ? this._messages.count + 1 : 1
    };
    if (typeof record.cost_usd === 'number') {
      this._facts.costUsd = (this._facts.costUsd ?? 0) + record.cost_usd;
    }
    this._setActivity({ retry: null, message: null });
  }

  private _toolResult(record: IToolResult): void {
    this._changeTool(record.tool_use_id, tool => endedTool(tool, record));
  }

  private _approvalRequest(record: IApprovalRequest): void {
    const approval = openApproval(record);
    if (
      record.what === 'tool' &&
      this._changeTool(record.call_id, tool => ({
        ...tool,
        status: 'approval',
        approval
      }))
    ) {
      return;
    }
    this._add({
      kind: 'approval',
      key: `r${record.seq}`,
      turn: record.turn ?? null,
      approval
    });
    this._approvals.set(record.call_id, this._items.length - 1);
  }

  private _approval(record: IApproval): void {
    const found = this._changeTool(record.call_id, tool =>
      tool.approval
        ? {
            ...tool,
            status: record.decision === 'allow' ? 'waiting' : 'denied',
            approval: decided(tool.approval, record)
          }
        : tool
    );
    const index = this._approvals.get(record.call_id);
    if (!found && index !== undefined) {
      const item = this._items[index];
      if (item.kind === 'approval') {
        this._items[index] = {
          ...item,
          approval: decided(item.approval, record)
        };
      }
    }
  }

  /**
   * The record does not name the call: it belongs to the first open call of its turn that does
   * this to this cell. A new cell's id is known only from here.
   */
  private _notebookOp(record: INotebookOp): void {
    for (const index of this._openTools) {
      const tool = this._items[index];
      if (
        tool.kind === 'tool' &&
        tool.turn === (record.turn ?? null) &&
        tool.name === record.op &&
        tool.change === null &&
        (tool.input?.cell_id === undefined ||
          tool.input.cell_id === record.cell_id)
      ) {
        this._items[index] = {
          ...tool,
          change: {
            op: record.op,
            cellId: record.cell_id,
            status: record.status,
            before: record.before ?? null,
            after: record.after ?? null,
            reason: record.reason ?? null
          }
        };
        return;
      }
    }
  }

  private _turnEnd(record: ITurnEnd): void {
    this._live = null;
    for (const index of this._openTools) {
      const tool = this._items[index];
      if (tool.kind === 'tool') {
        this._items[index] = stoppedTool(tool);
      }
    }
    this._openTools.clear();
    for (const index of this._approvals.values()) {
      const item = this._items[index];
      if (item.kind === 'approval') {
        this._items[index] = { ...item, approval: voided(item.approval) };
      }
    }
    this._approvals.clear();
    this._add(turnItem(record));
  }

  private _compactionEnd(record: ICompactionEnd): void {
    const index = this._compactions.get(record.compaction_id);
    const item = endedCompaction(record);
    if (index === undefined) {
      this._add(item);
    } else {
      this._items[index] = item;
    }
    this._facts.model = record.model ?? this._facts.model;
    this._facts.provider = record.provider ?? this._facts.provider;
    this._facts.compactionCount =
      record.compaction_count ?? this._facts.compactionCount;
  }

  private _restore(record: IRestore): void {
    const item = restoreItem(record);
    if (item) {
      this._settleOffers();
      this._add(item);
    }
  }

  /** What came after an offer to restore has answered it. */
  private _settleOffers(): void {
    this._items.forEach((item, index) => {
      if (item.kind === 'restore' && item.snapshotId !== null) {
        this._items[index] = { ...item, snapshotId: null };
      }
    });
  }

  private _progress(frame: ProgressFrame): void {
    switch (frame.what) {
      case 'tool':
        if (frame.call_id !== undefined) {
          this._changeTool(frame.call_id, tool =>
            OPEN.includes(tool.status)
              ? {
                  ...tool,
                  status: 'running',
                  outputs: frame.outputs ?? tool.outputs,
                  message: frame.message ?? tool.message,
                  startedAt: tool.startedAt ?? this._startOf(frame.started)
                }
              : tool
          );
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

  /** A call's start by this clock; the server's clock is not trusted to be ahead of it. */
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

  private _add(item: Item): void {
    this._items.push(item);
    const index = this._items.length - 1;
    if (item.kind === 'tool') {
      this._tools.set(item.callId, index);
      this._openTools.add(index);
    } else if (item.kind === 'compaction') {
      this._compactions.set(item.key, index);
    }
  }

  /** Replace the item of a call; `false` if there is none. */
  private _changeTool(
    callId: string,
    change: (tool: IToolItem) => IToolItem
  ): boolean {
    const index = this._tools.get(callId);
    const tool = index === undefined ? undefined : this._items[index];
    if (index === undefined || tool?.kind !== 'tool') {
      return false;
    }
    const changed = change(tool);
    this._items[index] = changed;
    if (!OPEN.includes(changed.status)) {
      this._openTools.delete(index);
    }
    return true;
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
    costUsd: null as number | null,
    compactionCount: 0
  };
  private _begun = false;
  private _items: Item[] = [];
  private _queue: readonly IQueuedMessage[] = [];
  private _activity: IActivity = IDLE;
  private _live: LiveMessage | null = null;
  /** Assistant messages so far of the turn in hand: numbers the next one's keys. */
  private _messages = { turn: '', count: 0 };
  // Where in `_items`: items are only appended or replaced, so positions hold.
  private _tools = new Map<string, number>();
  private _openTools = new Set<number>();
  private _approvals = new Map<string, number>();
  private _compactions = new Map<string, number>();
  private _snapshot: IConversation | null = null;
}
