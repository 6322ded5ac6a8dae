/**
 * Pure functions that create an item from a record, or update an existing item with a record.
 */
import { IAttachment } from '../api/attachments';
import { IBlock } from '../api/frames';
import {
  IApproval,
  IApprovalRequest,
  ICompactionEnd,
  ICompactionStart,
  IErrorRecord,
  IRestore,
  IRevertRecord,
  IRunEnd,
  ISettingsRecord,
  ISnapshotRecord,
  IToolResult,
  ITurnEnd,
  IUserMessage
} from '../api/records';
import {
  IApprovalState,
  ICompactionItem,
  IErrorItem,
  INoteItem,
  IRestoreItem,
  IToolItem,
  ITurnItem,
  IUserItem,
  ToolStatus
} from './items';
import { resolveOutputs } from './outputs';

function base(record: { seq: number; turn?: string }): {
  key: string;
  turn: string | null;
} {
  return { key: `r${record.seq}`, turn: record.turn ?? null };
}

export function userItem(record: IUserMessage): IUserItem {
  return {
    ...base(record),
    kind: 'user',
    seq: record.seq,
    ts: record.ts,
    user: record.user ?? null,
    text: record.text,
    attachments: (record.attachments ?? []).map(attachment =>
      withImage(attachment, record.content)
    )
  };
}

/** Fill in the data of an attached image, which the record stores once, as a content block. */
function withImage(attachment: IAttachment, content: IBlock[]): IAttachment {
  if (attachment.type !== 'image' || attachment.content_index === undefined) {
    return attachment;
  }
  const data = content[attachment.content_index]?.source?.data;
  return typeof data === 'string' ? { ...attachment, data } : attachment;
}

/**
 * Return a note about changed settings, or `null` if there is nothing to show.
 *
 * @param begun - Whether the session has a message already, so that a new model takes over only at
 * the next compaction.
 */
export function noteItem(
  record: ISettingsRecord,
  begun: boolean
): INoteItem | null {
  const { permission_mode, model, notebook, snapshots } = record;
  // The restore mode is a preference of the user, not an event of the conversation.
  if (
    permission_mode === undefined &&
    model === undefined &&
    notebook === undefined &&
    snapshots === undefined
  ) {
    return null;
  }
  return {
    ...base(record),
    kind: 'note',
    permissionMode: permission_mode ?? null,
    model: model ?? null,
    modelPending: begun,
    notebook: notebook ?? null,
    snapshots: snapshots ?? null,
    removed: false,
    user: record.user ?? null
  };
}

/** Return a note about deleted snapshots, or `null` if the user asked for it: that has a note. */
export function removedItem(record: ISnapshotRecord): INoteItem | null {
  return record.trigger === 'limit'
    ? {
        ...base(record),
        kind: 'note',
        permissionMode: null,
        model: null,
        modelPending: false,
        notebook: null,
        snapshots: null,
        removed: true,
        user: null
      }
    : null;
}

export function errorItem(record: IErrorRecord): IErrorItem {
  return {
    ...base(record),
    kind: 'error',
    code: record.code,
    message: record.message,
    hint: record.hint ?? '',
    where: record.where ?? ''
  };
}

export function turnItem(
  record: ITurnEnd,
  changes: ITurnItem['changes']
): ITurnItem {
  return {
    ...base(record),
    kind: 'turn',
    status: record.status,
    requests: record.requests ?? 0,
    durationMs: record.duration_ms ?? 0,
    usage: record.usage ?? {},
    costUsd: record.cost_usd ?? null,
    changes,
    revert: null
  };
}

/** Add a revert to a turn. A repeated revert retries only what conflicted or failed before. */
export function revertedTurn(
  item: ITurnItem,
  record: IRevertRecord
): ITurnItem {
  const cells = (record.cells ?? []).map(cell => ({
    id: cell.cell_id,
    outcome: cell.outcome,
    code: cell.code ?? null,
    reason: cell.reason ?? null,
    current: cell.current ?? null,
    earlier: cell.earlier ?? null,
    outputs: cell.outputs ?? null
  }));
  const files = (record.files ?? []).map(file => ({
    path: file.path,
    outcome: file.outcome,
    code: file.code ?? null,
    reason: file.reason ?? null
  }));
  const done = (entry: { outcome: string }): boolean =>
    entry.outcome !== 'conflict' && entry.outcome !== 'failed';
  return {
    ...item,
    revert: {
      cells: [...(item.revert?.cells.filter(done) ?? []), ...cells],
      files: [...(item.revert?.files.filter(done) ?? []), ...files],
      unsaved: record.unsaved ?? null
    }
  };
}

export function runningCompaction(record: ICompactionStart): ICompactionItem {
  return {
    ...base(record),
    kind: 'compaction',
    key: record.compaction_id,
    status: 'running',
    trigger: record.trigger,
    path: null,
    tokensBefore: record.tokens_before,
    tokensAfter: null,
    waitMs: null,
    count: null,
    kernelState: {},
    summary: null,
    reason: null
  };
}

export function endedCompaction(record: ICompactionEnd): ICompactionItem {
  return {
    ...base(record),
    kind: 'compaction',
    key: record.compaction_id,
    status: record.outcome,
    trigger: record.trigger,
    path: record.path ?? null,
    tokensBefore: record.tokens_before,
    tokensAfter: record.tokens_after,
    waitMs: record.wait_ms ?? null,
    count: record.compaction_count ?? null,
    kernelState: record.kernel_state ?? {},
    // A summary made by the model API is in a separate block.
    summary:
      [record.block?.content, record.summary].filter(Boolean).join('\n\n') ||
      null,
    reason: record.reason ?? null
  };
}

/** Return `null` for a complete restore after a compaction: the compaction banner reports it. */
export function restoreItem(record: IRestore): IRestoreItem | null {
  if (record.trigger === 'compaction' && record.outcome !== 'partial') {
    return null;
  }
  const names = Object.entries(record.names ?? {});
  const missing = names
    .filter(
      ([, { status, action }]) =>
        action !== 'kept' && (status === 'skipped' || status === 'degraded')
    )
    .map(([name, { status, reason, recipe, left_out }]) => ({
      name,
      reason: reason ?? '',
      placeholder: status === 'degraded',
      source: recipe?.source ?? null,
      leftOut: left_out ?? null,
      loadableFrom: left_out ? (record.snapshot_id ?? null) : null
    }));
  return {
    ...base(record),
    kind: 'restore',
    outcome: record.outcome,
    snapshotId:
      record.outcome === 'offered' ? (record.snapshot_id ?? null) : null,
    trigger: record.trigger,
    restored: names.filter(
      ([, { status, action }]) =>
        action !== 'kept' && status !== 'skipped' && status !== 'degraded'
    ).length,
    missing,
    asked: record.asked ?? [],
    saved: record.saved ?? null,
    behind: record.behind
      ? {
          asOf: record.behind.as_of,
          runs: record.behind.runs,
          code: record.behind.code,
          cutOff: record.behind.cut_off ?? false
        }
      : null,
    reason: record.reason ?? null,
    empty: record.empty ?? false
  };
}

export function openApproval(record: IApprovalRequest): IApprovalState {
  return {
    callId: record.call_id,
    what: record.what,
    summary: record.summary,
    detail: record.detail ?? null,
    decision: null,
    scope: 'once',
    user: null
  };
}

export function decided(
  approval: IApprovalState,
  record: IApproval
): IApprovalState {
  return {
    ...approval,
    decision: record.decision,
    scope: record.scope ?? 'once',
    user: record.user ?? null
  };
}

/** Mark an undecided approval as void because its turn has ended. */
export function voided(approval: IApprovalState): IApprovalState {
  return approval.decision === null
    ? { ...approval, decision: 'void' }
    : approval;
}

function outcomeOf(record: IToolResult | IRunEnd): ToolStatus {
  if (record.synthetic) {
    return 'stopped';
  }
  return record.is_error ? 'error' : 'ok';
}

/** Complete a call with its result, or with the end of the run that it started. */
export function endedTool(
  tool: IToolItem,
  record: IToolResult | IRunEnd
): IToolItem {
  const denied = tool.approval?.decision === 'deny';
  return {
    ...tool,
    status: denied ? 'denied' : outcomeOf(record),
    outputs: resolveOutputs(record.outputs ?? [], record.content),
    content: record.content,
    outputFile: record.output_file ?? null,
    leftOut: record.left_out ?? 0,
    durationMs: record.duration_ms ?? 0,
    startedAt: null,
    goesOn: false,
    message: null,
    // If the call was stopped while it waited for approval, there is nothing left to decide.
    approval: tool.approval && voided(tool.approval)
  };
}

/** Update a call that got its result while its run is still going on. */
export function outlastedTool(tool: IToolItem, record: IToolResult): IToolItem {
  return {
    ...endedTool(tool, record),
    status: 'running',
    startedAt:
      tool.startedAt ?? Date.parse(record.ts) - (record.duration_ms ?? 0),
    goesOn: true
  };
}

/** Complete such a call after the result of another call, `record`, has reported its run's end. */
export function endedElsewhere(
  tool: IToolItem,
  record: IToolResult
): IToolItem {
  return {
    ...tool,
    status: outcomeOf(record),
    // The content so far only says that the run is still going on.
    content: record.is_error ? record.content : tool.content,
    startedAt: null,
    goesOn: false,
    message: null
  };
}

/** Stop a call whose turn has ended before it was complete. */
export function stoppedTool(tool: IToolItem): IToolItem {
  return {
    ...tool,
    status: 'stopped',
    startedAt: null,
    approval: tool.approval && voided(tool.approval)
  };
}
