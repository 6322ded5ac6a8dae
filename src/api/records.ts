/**
 * The records of a session as the server writes them. Fields at their default are left out.
 */
import { IAttachment } from './attachments';
import { IBlock, IOutput } from './frames';

interface IBase {
  seq: number;
  id: string;
  /** UTC, ISO 8601. */
  ts: string;
  /** Who acted, where a person did. */
  user?: string;
  /** The turn it belongs to. */
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
  /** The notebook's variables are saved, or no longer. */
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

/** What a call, or a run behind its call, came to. */
interface IOutcome extends IBase {
  /** The call; of a run, the one that began it. */
  tool_use_id: string;
  content: IBlock[];
  is_error?: boolean;
  outputs?: IOutput[];
  output_file?: string;
  /** Characters that the text in `output_file` lacks. */
  left_out?: number;
  duration_ms?: number;
  /** It was cut off, or never carried out. */
  synthetic?: boolean;
}

export interface IToolResult extends IOutcome {
  kind: 'tool_result';
  name: string;
  /** The call that began the run this is about, where that outlasted its call. */
  run?: string;
  /** `run` goes on behind this answer. */
  goes_on?: boolean;
}

/** A run that outlasted its call has ended, and no call waited for it: all its outputs. */
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
  /** Number of names by status. */
  names?: Record<string, number>;
  /** Age of the last snapshot in seconds. */
  age_s?: number;
  /** Why there is no snapshot. */
  reason?: string;
  /** Somebody has switched snapshots off. */
  off?: boolean;
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
  summary?: string;
  /** The summary, where the model's server has made and signed it. */
  block?: { content?: string };
  reason?: string;
  /** In force from here on, if this compaction changed them. */
  model?: string;
  provider?: string;
}

/**
 * Why a variable was not loaded although the snapshot holds it, and gives it if it is asked for by
 * name: reading it back hung or ended the process, it was slow, or a person interrupted it.
 */
export type LeftOut = 'hung' | 'ended' | 'slow' | 'interrupted';

/** What became of one variable. */
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
  /** The only names that a person wanted. */
  asked?: string[];
  behind?: IBehind;
  reason?: string;
}

/** What ran in a process that is gone after the snapshot had been made. */
export interface IBehind {
  /** When the snapshot was made. */
  as_of: string;
  runs: number;
  /** First lines of the last of them, in order. */
  code: string[];
  /** The last one ran when the process ended. */
  cut_off?: boolean;
}

export interface ISnapshotRecord extends IBase {
  kind: 'snapshot';
  /** `removed`: all that was saved before is gone. */
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
  /** Why it failed; of one that was applied, why it is not on disk. */
  reason?: string;
  /** Stable name of the error in `reason`. */
  code?: string;
  /** Id of the turn that it undoes a part of. */
  reverts?: string;
}

export interface IFileChange extends IBase {
  kind: 'file_change';
  path: string;
}

/** The user has reverted what the agent changed in the record's turn. */
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

/** The kinds that show in the panel; others are passed over. */
export type SessionRecord =
  | ISessionStart
  | ISettingsRecord
  | IUserMessage
  | IAssistantMessage
  | IToolResult
  | IRunEnd
  | ITurnEnd
  | ICompactionStart
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
