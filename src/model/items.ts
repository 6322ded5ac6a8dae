/**
 * What the panel shows, as plain immutable data: an item that changes is replaced by a new object,
 * one that does not keeps its identity.
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
 * - `waiting`: written, its turn has not come
 * - `approval`: the person has to decide
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
  /** Stable name of `reason`; `null` if it has none. */
  readonly code: string | null;
  readonly reason: string | null;
}

export interface IToolItem extends IItem {
  readonly kind: 'tool';
  readonly callId: string;
  readonly name: string;
  /** `null` while the model is writing it. */
  readonly input: Readonly<Record<string, unknown>> | null;
  /** JSON text of the input as far as it has been written. */
  readonly inputText: string;
  readonly status: ToolStatus;
  readonly approval: IApprovalState | null;
  readonly outputs: readonly IOutput[];
  /** What the model was answered. */
  readonly content: readonly IBlock[];
  readonly outputFile: string | null;
  /** Characters that nothing holds, since there were too many. */
  readonly leftOut: number;
  readonly durationMs: number | null;
  /** When it began to run, in milliseconds since the epoch by the browser's clock. */
  readonly startedAt: number | null;
  /** It was answered, but what it runs goes on. */
  readonly goesOn: boolean;
  /** What a running call says of itself. */
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

/** Consent, a limit, or the approval of a call that is not on show. */
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

/** A variable that a restore could not bring back as it was. */
export interface IMissingName {
  readonly name: string;
  readonly reason: string;
  /** It is there in part, or as a stand-in that says what it was when it is used. */
  readonly placeholder: boolean;
  /** Code that made it; `null` if that is not known. */
  readonly source: string | null;
  /** Why it was not loaded, if that is for what loading it may do; else `null`. */
  readonly leftOut: LeftOut | null;
  /** Snapshot that it can be had from all the same, as long as nothing newer was said of it. */
  readonly loadableFrom: string | null;
}

export interface IRestoreItem extends IItem {
  readonly kind: 'restore';
  readonly outcome:
    'ok' | 'partial' | 'unchanged' | 'failed' | 'skipped' | 'offered';
  /** What can be restored, while the offer stands. */
  readonly snapshotId: string | null;
  readonly trigger: string;
  readonly restored: number;
  /** Names that did not come back, or not whole. */
  readonly missing: readonly IMissingName[];
  /** The only names that a person wanted; empty if all. */
  readonly asked: readonly string[];
  /** What ran after the snapshot and is not in it. */
  readonly behind: IBehindState | null;
  readonly reason: string | null;
}

export interface IBehindState {
  /** When the snapshot was made (ISO 8601). */
  readonly asOf: string;
  readonly runs: number;
  /** First lines of the last of them, in order. */
  readonly code: readonly string[];
  /** The last one ran when the process ended. */
  readonly cutOff: boolean;
}

export interface IErrorItem extends IItem {
  readonly kind: 'error';
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly where: string;
}

/** A setting of the session changed on the way. */
export interface INoteItem extends IItem {
  readonly kind: 'note';
  readonly permissionMode: string | null;
  readonly model: string | null;
  /** The model answers from the next compaction on. */
  readonly modelPending: boolean;
  readonly notebook: string | null;
  /** The notebook's variables are saved from here on, or no longer. */
  readonly snapshots: boolean | null;
  /** What was saved is gone, because all sessions together had saved too much. */
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
  /** How many cells and files the agent changed in it. */
  readonly changes: { readonly cells: number; readonly files: number };
  /** What became of taking that back; `null` if nobody has. */
  readonly revert: IRevert | null;
}

export interface IRevert {
  readonly cells: readonly IRevertedCell[];
  readonly files: readonly IRevertedFile[];
  /** Why the notebook is not on disk yet as it is now. */
  readonly unsaved: string | null;
}

export interface IRevertedCell {
  readonly id: string;
  readonly outcome: string;
  readonly code: string | null;
  readonly reason: string | null;
  /** Of a cell that is left as it is: its source, `null` if it is gone, … */
  readonly current: string | null;
  /** … and the one before the turn, `null` if it was not there. */
  readonly earlier: string | null;
  /** `restored` or `cleared`, where the cell showed a run of what was reverted. */
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

/** A message that waits for the agent to be free. */
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

/** What goes on right now. */
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
  /** All records there were when the stream was opened are in. */
  readonly ready: boolean;
  readonly lastSeq: number;
  readonly notebook: string | null;
  readonly title: string | null;
  readonly provider: string | null;
  readonly model: string | null;
  /** Model chosen last: another one than `model` until the next compaction. */
  readonly chosenModel: string | null;
  readonly permissionMode: string | null;
  /** Tokens of the context; `null` if unknown. */
  readonly contextTokens: number | null;
  /** Tokens at which the context is compacted; 0 if unknown. */
  readonly threshold: number;
  readonly kernelState: string | null;
  /** The notebook's variables are saved; `null` while that is unknown. */
  readonly snapshotsOn: boolean | null;
  /** Variables come back right now, outside of any turn. */
  readonly restoring: boolean;
  /** Sum over the replies whose price is known; `null` if none is. */
  readonly costUsd: number | null;
  readonly compactionCount: number;
}
