/**
 * The state that the panel shows, as immutable data: an item that changes is replaced by a new
 * object, and an unchanged item keeps its identity.
 */
import { IAttachment } from '../api/attachments';
import { IBlock, IOutput } from '../api/frames';
import { ICellImage, IKernelStateInfo, IUsage, LeftOut } from '../api/records';

interface IItem {
  /** Stable from the first streamed character to the record, so that views stay mounted. */
  readonly key: string;
  readonly turn: string | null;
}

export interface IUserItem extends IItem {
  readonly kind: 'user';
  readonly seq: number;
  readonly ts: string;
  readonly user: string | null;
  readonly text: string;
  readonly attachments: readonly IAttachment[];
}

export interface ITextItem extends IItem {
  readonly kind: 'text';
  readonly text: string;
  readonly streaming: boolean;
}

export interface IThinkingItem extends IItem {
  readonly kind: 'thinking';
  readonly text: string;
  readonly streaming: boolean;
}

/**
 * - `writing`: the model is still writing the call
 * - `waiting`: the call is complete but has not started
 * - `approval`: the call waits for the user's decision
 */
export type ToolStatus =
  | 'writing'
  | 'waiting'
  | 'approval'
  | 'running'
  | 'ok'
  | 'error'
  | 'denied'
  | 'stopped';

/** A change that the call made to the notebook. */
export interface ICellChange {
  readonly op: string;
  readonly cellId: string;
  readonly status: 'applied' | 'conflict' | 'failed';
  readonly before: ICellImage | null;
  readonly after: ICellImage | null;
  /** Error code of `reason`; `null` if it has none. */
  readonly code: string | null;
  readonly reason: string | null;
}

export interface IToolItem extends IItem {
  readonly kind: 'tool';
  readonly callId: string;
  readonly name: string;
  /** Input of the call; `null` while the model is writing it. */
  readonly input: Readonly<Record<string, unknown>> | null;
  /** JSON text of the input, as far as it has been streamed. */
  readonly inputText: string;
  readonly status: ToolStatus;
  readonly approval: IApprovalState | null;
  readonly outputs: readonly IOutput[];
  /** Content of the tool result that the model received. */
  readonly content: readonly IBlock[];
  readonly outputFile: string | null;
  /** Number of characters that were dropped because the output was too long. */
  readonly leftOut: number;
  readonly durationMs: number | null;
  /** When the call started to run, in milliseconds since the epoch by the browser's clock. */
  readonly startedAt: number | null;
  /** Whether the call has its result but its run is still going on. */
  readonly goesOn: boolean;
  /** Progress message of a running call. */
  readonly message: string | null;
  readonly change: ICellChange | null;
}

export interface IApprovalState {
  readonly callId: string;
  readonly what: 'tool' | 'consent' | 'limit';
  readonly summary: string;
  /** Markdown. */
  readonly detail: string | null;
  /** `null` while open; `void` if its turn ended without a decision. */
  readonly decision: 'allow' | 'deny' | 'void' | null;
  readonly scope: 'once' | 'session';
  readonly user: string | null;
}

/** A request for consent, a turn at its limit, or the approval of a call that has no item. */
export interface IApprovalItem extends IItem {
  readonly kind: 'approval';
  readonly approval: IApprovalState;
}

export interface ICompactionItem extends IItem {
  readonly kind: 'compaction';
  readonly status: 'running' | 'ok' | 'skipped' | 'cancelled' | 'failed';
  readonly trigger: string;
  readonly path: string | null;
  readonly tokensBefore: number;
  readonly tokensAfter: number | null;
  readonly waitMs: number | null;
  readonly count: number | null;
  readonly kernelState: IKernelStateInfo;
  readonly summary: string | null;
  readonly reason: string | null;
}

/** A variable that could not be restored, or not completely. */
export interface IMissingName {
  readonly name: string;
  readonly reason: string;
  /** Whether the name holds a partial value, or a placeholder that says what it was when used. */
  readonly placeholder: boolean;
  /** Code that created the variable; `null` if unknown. */
  readonly source: string | null;
  /** Why loading the variable was skipped although the snapshot has it; `null` otherwise. */
  readonly leftOut: LeftOut | null;
  /**
   * Id of a snapshot that the variable can still be loaded from; `null` if there is none, or once
   * a later restore has reported the name.
   */
  readonly loadableFrom: string | null;
}

export interface IRestoreItem extends IItem {
  readonly kind: 'restore';
  readonly outcome:
    'ok' | 'partial' | 'unchanged' | 'failed' | 'skipped' | 'offered';
  /** Id of the snapshot that is offered; `null` if there is no offer, or no longer. */
  readonly snapshotId: string | null;
  readonly trigger: string;
  readonly restored: number;
  /** Names that were not restored, or not completely. */
  readonly missing: readonly IMissingName[];
  /** The names that were requested; empty if all. */
  readonly asked: readonly string[];
  /** When the snapshot was taken (ISO 8601); `null` if it is the newest. */
  readonly saved: string | null;
  /** The runs after the snapshot, whose effects it lacks. */
  readonly behind: IBehindState | null;
  readonly reason: string | null;
  /** Whether the snapshot contains no variables. */
  readonly empty: boolean;
}

export interface IBehindState {
  /** When the snapshot was made (ISO 8601). */
  readonly asOf: string;
  readonly runs: number;
  /** First lines of the most recent runs, in order. */
  readonly code: readonly string[];
  /** Whether the last run was still going on when the process ended. */
  readonly cutOff: boolean;
}

export interface IErrorItem extends IItem {
  readonly kind: 'error';
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly where: string;
}

/** A change of the session's settings or snapshots during the conversation. */
export interface INoteItem extends IItem {
  readonly kind: 'note';
  readonly permissionMode: string | null;
  readonly model: string | null;
  /** Whether the model takes over only after the next compaction. */
  readonly modelPending: boolean;
  readonly notebook: string | null;
  /** Whether the notebook's variables are saved from now on; `null` if that did not change. */
  readonly snapshots: boolean | null;
  /** Whether the snapshots were deleted because all sessions together exceeded the size limit. */
  readonly removed: boolean;
  readonly user: string | null;
}

export interface ITurnItem extends IItem {
  readonly kind: 'turn';
  readonly status: 'ok' | 'interrupted' | 'error' | 'limit' | 'crashed';
  readonly requests: number;
  readonly durationMs: number;
  readonly usage: IUsage;
  readonly costUsd: number | null;
  /** Number of cells and files that the agent changed in the turn. */
  readonly changes: { readonly cells: number; readonly files: number };
  /** Outcome of reverting these changes; `null` if the turn was not reverted. */
  readonly revert: IRevert | null;
}

export interface IRevert {
  readonly cells: readonly IRevertedCell[];
  readonly files: readonly IRevertedFile[];
  /** Why the notebook could not be saved; `null` if it was. */
  readonly unsaved: string | null;
}

export interface IRevertedCell {
  readonly id: string;
  readonly outcome: string;
  readonly code: string | null;
  readonly reason: string | null;
  /** For a cell that was not reverted: its current source; `null` if the cell is gone. */
  readonly current: string | null;
  /** For a cell that was not reverted: its source before the turn; `null` if it did not exist. */
  readonly earlier: string | null;
  /** `restored` or `cleared`, if the cell showed outputs of the reverted source. */
  readonly outputs: string | null;
}

export interface IRevertedFile {
  readonly path: string;
  readonly outcome: string;
  readonly code: string | null;
  readonly reason: string | null;
}

export type Item =
  | IUserItem
  | ITextItem
  | IThinkingItem
  | IToolItem
  | IApprovalItem
  | ICompactionItem
  | IRestoreItem
  | IErrorItem
  | INoteItem
  | ITurnItem;

/** A message that waits in the queue until the agent is idle. */
export interface IQueuedMessage {
  readonly seq: number;
  readonly text: string;
  readonly user: string | null;
  readonly attachments: readonly IAttachment[];
}

export interface IRetryState {
  readonly reason: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  /** When the next attempt is made, in milliseconds since the epoch by the browser's clock. */
  readonly at: number;
}

/** The agent's current activity. */
export interface IActivity {
  readonly running: boolean;
  readonly phase: string;
  /** When the phase began, in milliseconds since the epoch by the browser's clock. */
  readonly since: number;
  readonly message: string | null;
  readonly retry: IRetryState | null;
}

/** One session as the panel shows it. */
export interface IConversation {
  readonly items: readonly Item[];
  readonly queue: readonly IQueuedMessage[];
  readonly activity: IActivity;
  /** Whether the initial replay of the existing records is complete. */
  readonly ready: boolean;
  readonly lastSeq: number;
  readonly notebook: string | null;
  readonly title: string | null;
  readonly provider: string | null;
  readonly model: string | null;
  /** Model that was selected last; it differs from `model` until the next compaction. */
  readonly chosenModel: string | null;
  readonly permissionMode: string | null;
  /** Size of the context in tokens; `null` if unknown. */
  readonly contextTokens: number | null;
  /** Size in tokens at which the context is compacted; 0 if unknown. */
  readonly threshold: number;
  readonly kernelState: string | null;
  /** Whether the notebook's variables are saved; `null` if unknown. */
  readonly snapshotsOn: boolean | null;
  /** Whether variables are being restored right now, outside of a turn. */
  readonly restoring: boolean;
  /** Cost of the replies whose price is known, in US dollars; `null` if none is known. */
  readonly costUsd: number | null;
  readonly compactionCount: number;
}
