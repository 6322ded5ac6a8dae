/**
 * The records of a session as the server writes them. Fields that have their default value are
 * omitted.
 */
import { IAttachment } from './attachments';
import { IBlock, IOutput } from './frames';

interface IBase {
  seq: number;
  id: string;
  /** UTC, ISO 8601. */
  ts: string;
  /** Name of the user, if the record is the action of a person. */
  user?: string;
  /** Id of the turn that the record belongs to. */
  turn?: string;
}

export interface IUsage {
  input_tokens?: number;
  output_tokens?: number;
  cache_read_input_tokens?: number;
  cache_creation_input_tokens?: number;
}

export interface ISessionStart extends IBase {
  kind: 'session_start';
  version: string;
  notebook: string;
  provider: string;
  model: string;
  permission_mode: string;
  title?: string;
}

export interface ISettingsRecord extends IBase {
  kind: 'settings';
  permission_mode?: string;
  model?: string;
  provider?: string;
  notebook?: string;
  restore?: string;
  /** Whether the notebook's variables are saved from now on. */
  snapshots?: boolean;
}

export interface IUserMessage extends IBase {
  kind: 'user_message';
  text: string;
  attachments?: IAttachment[];
  content: IBlock[];
}

export interface IAssistantMessage extends IBase {
  kind: 'assistant_message';
  content: IBlock[];
  model: string;
  stop_reason?: string;
  usage?: IUsage;
  duration_ms?: number;
  cost_usd?: number;
}

/** Result of a tool call, or of a run that outlasted its tool call. */
interface IOutcome extends IBase {
  /** Id of the call; for a run, of the call that started it. */
  tool_use_id: string;
  content: IBlock[];
  is_error?: boolean;
  outputs?: IOutput[];
  output_file?: string;
  /** Number of characters that were dropped from `output_file`. */
  left_out?: number;
  duration_ms?: number;
  /** Whether the call was cut off or never executed, so that the server supplied this result. */
  synthetic?: boolean;
}

export interface IToolResult extends IOutcome {
  kind: 'tool_result';
  name: string;
  /** Id of the call that started the run reported here, if the run outlasted that call. */
  run?: string;
  /** Whether `run` is still going on after this result. */
  goes_on?: boolean;
}

/** End of a run that outlasted its call, with all its outputs, while no call waited for it. */
export interface IRunEnd extends IOutcome {
  kind: 'run_end';
}

export interface ITurnEnd extends IBase {
  kind: 'turn_end';
  status: 'ok' | 'interrupted' | 'error' | 'limit' | 'crashed';
  requests?: number;
  duration_ms?: number;
  usage?: IUsage;
  cost_usd?: number;
  context_tokens?: number;
}

export interface ICompactionStart extends IBase {
  kind: 'compaction_start';
  compaction_id: string;
  trigger: string;
  tokens_before: number;
}

export interface IKernelStateInfo {
  status?: 'current' | 'busy' | 'stale' | 'none';
  snapshot_seq?: number;
  /** Number of names for each status. */
  names?: Record<string, number>;
  /** Age of the last snapshot in seconds. */
  age_s?: number;
  /** Number of variables of a former process that the present one lacks. */
  unrestored?: number;
  /** Why there is no snapshot. */
  reason?: string;
  /** Whether a user has switched snapshots off. */
  off?: boolean;
}

/** End of a note, which was made ahead of the compaction that may use it. */
export interface IPrefireEnd extends IBase {
  kind: 'prefire_end';
  cost_usd?: number;
}

export interface ICompactionEnd extends IBase {
  kind: 'compaction_end';
  compaction_id: string;
  outcome: 'ok' | 'skipped' | 'cancelled' | 'failed';
  trigger: string;
  path?: 'prune' | 'swap' | 'merge' | 'single_pass' | 'digest';
  tokens_before: number;
  tokens_after: number;
  wait_ms?: number;
  compaction_count?: number;
  kernel_state?: IKernelStateInfo;
  cost_usd?: number;
  summary?: string;
  /** The summary, if it was made and signed by the model API. */
  block?: { content?: string };
  reason?: string;
  /** Model and provider from here on, if the compaction has changed them. */
  model?: string;
  provider?: string;
}

/**
 * Why a variable of the snapshot was not loaded: reading it hung, ended the process, was slow, or
 * was interrupted by the user. Such a variable can still be restored by name.
 */
export type LeftOut = 'hung' | 'ended' | 'slow' | 'interrupted';

/** Outcome of a restore for one variable. */
export interface IRestoredName {
  status?: string;
  reason?: string;
  action?: 'loaded' | 'kept' | 'none';
  recipe?: { source?: string };
  left_out?: LeftOut;
}

export interface IRestore extends IBase {
  kind: 'restore';
  outcome: 'ok' | 'partial' | 'unchanged' | 'failed' | 'skipped' | 'offered';
  mode: 'hot' | 'cold';
  snapshot_id?: string;
  trigger: string;
  names?: Record<string, IRestoredName>;
  /** The names that were requested, if not all. */
  asked?: string[];
  /** When the snapshot was taken (ISO 8601), if it is not the newest. */
  saved?: string;
  behind?: IBehind;
  reason?: string;
  /** Whether the snapshot contains no variables. */
  empty?: boolean;
}

/** Code that ran after the snapshot was made, in a kernel process that no longer exists. */
export interface IBehind {
  /** When the snapshot was made. */
  as_of: string;
  runs: number;
  /** First lines of the most recent runs, in order. */
  code: string[];
  /** Whether the last run was still going on when the process ended. */
  cut_off?: boolean;
}

export interface ISnapshotRecord extends IBase {
  kind: 'snapshot';
  /** `removed`: all earlier snapshots were deleted. */
  outcome: 'ok' | 'unchanged' | 'skipped' | 'failed' | 'removed';
  trigger: string;
}

export interface IApprovalRequest extends IBase {
  kind: 'approval_request';
  call_id: string;
  what: 'tool' | 'consent' | 'limit';
  tool?: string;
  input?: Record<string, unknown>;
  summary: string;
  detail?: string;
}

export interface IApproval extends IBase {
  kind: 'approval';
  call_id: string;
  decision: 'allow' | 'deny';
  scope?: 'once' | 'session';
}

export interface IQueued extends IBase {
  kind: 'queued';
  text: string;
  attachments?: IAttachment[];
}

export interface IUnqueued extends IBase {
  kind: 'unqueued';
  queued_seq: number;
  reason: string;
}

export interface IInterrupt extends IBase {
  kind: 'interrupt';
  phase: string;
}

export interface IErrorRecord extends IBase {
  kind: 'error';
  code: string;
  message: string;
  hint?: string;
  where?: string;
}

export interface INotebookOp extends IBase {
  kind: 'notebook_op';
  op_id: string;
  op: string;
  cell_id: string;
  status: 'applied' | 'conflict' | 'failed';
  writer: string;
  before?: ICellImage;
  after?: ICellImage;
  /** Why the operation failed; for an applied one, why the notebook is not saved. */
  reason?: string;
  /** Stable name of the error in `reason`. */
  code?: string;
  /** Id of the turn that this operation partly reverts. */
  reverts?: string;
}

export interface IFileChange extends IBase {
  kind: 'file_change';
  path: string;
}

/** The user has reverted the agent's changes of the record's turn. */
export interface IRevertRecord extends IBase {
  kind: 'revert';
  cells?: {
    cell_id: string;
    outcome: string;
    code?: string;
    reason?: string;
    current?: string | null;
    earlier?: string | null;
    /** `restored` or `cleared`. */
    outputs?: string;
  }[];
  files?: { path: string; outcome: string; code?: string; reason?: string }[];
  unsaved?: string;
}

export interface ICellImage {
  source?: string;
  cell_type?: string;
  index?: number;
}

export interface ITitle extends IBase {
  kind: 'title';
  title: string;
}

/** The kinds of records that the panel shows. It ignores the others. */
export type SessionRecord =
  | ISessionStart
  | ISettingsRecord
  | IUserMessage
  | IAssistantMessage
  | IToolResult
  | IRunEnd
  | ITurnEnd
  | ICompactionStart
  | IPrefireEnd
  | ICompactionEnd
  | ISnapshotRecord
  | IRestore
  | IApprovalRequest
  | IApproval
  | IQueued
  | IUnqueued
  | IInterrupt
  | IErrorRecord
  | INotebookOp
  | IFileChange
  | IRevertRecord
  | ITitle;
