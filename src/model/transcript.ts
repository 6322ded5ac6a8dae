import {
  IApproval,
  IApprovalRequest,
  ICompactionEnd,
  IFileChange,
  INotebookOp,
  IRestore,
  IRevertRecord,
  IRunEnd,
  IToolResult,
  ITurnEnd
} from '../api/records';
import { IMissingName, IToolItem, Item, ToolStatus } from './items';
import {
  decided,
  endedCompaction,
  endedElsewhere,
  endedTool,
  openApproval,
  outlastedTool,
  restoreItem,
  revertedTurn,
  stoppedTool,
  turnItem,
  voided
} from './recordItems';

/** Statuses of a call that has no result yet, or whose run is still going on. */
const OPEN: readonly ToolStatus[] = [
  'writing',
  'waiting',
  'approval',
  'running'
];

/**
 * The items of the records so far, in order. A later record about an existing item (a tool call,
 * an approval, a compaction) replaces that item.
 */
export class Transcript {
  get items(): readonly Item[] {
    return this._items;
  }

  add(item: Item): void {
    this._items.push(item);
    const index = this._items.length - 1;
    if (item.kind === 'tool') {
      this._tools.set(item.callId, index);
      this._openTools.add(index);
    } else if (item.kind === 'compaction') {
      this._compactions.set(item.key, index);
    }
  }

  /**
   * Update the progress of a call. No effect on a call that has its result, unless its run is still
   * going on.
   *
   * @param progress.startedAt - Milliseconds since the epoch; only the first value counts.
   */
  runTool(
    callId: string,
    progress: {
      outputs?: IToolItem['outputs'];
      message?: string;
      startedAt: number;
    }
  ): void {
    this._changeTool(callId, tool =>
      OPEN.includes(tool.status)
        ? {
            ...tool,
            status: 'running',
            outputs: progress.outputs ?? tool.outputs,
            message: progress.message ?? tool.message,
            startedAt: tool.startedAt ?? progress.startedAt
          }
        : tool
    );
  }

  endTool(record: IToolResult): void {
    const { run, tool_use_id: callId } = record;
    if (run === callId && record.goes_on) {
      this._changeTool(callId, tool => outlastedTool(tool, record));
      return;
    }
    this._changeTool(callId, tool => endedTool(tool, record));
    if (run !== undefined && !record.goes_on) {
      this._changeTool(run, tool =>
        tool.goesOn ? endedElsewhere(tool, record) : tool
      );
    }
  }

  endRun(record: IRunEnd): void {
    this._changeTool(record.tool_use_id, tool => endedTool(tool, record));
  }

  requestApproval(record: IApprovalRequest): void {
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
    this.add({
      kind: 'approval',
      key: `r${record.seq}`,
      turn: record.turn ?? null,
      approval
    });
    this._approvals.set(record.call_id, this._items.length - 1);
  }

  decideApproval(record: IApproval): void {
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
   * Attach a change of a cell to its tool call. The record does not name the call: it is the first
   * open call of the turn with the same operation and cell id. The call that inserts a cell has no
   * cell id, since only the record knows it.
   */
  changeCell(record: INotebookOp): void {
    if (changesCell(record)) {
      this._changesOf(record.turn).cells.add(record.cell_id);
    }
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
            code: record.code ?? null,
            reason: record.reason ?? null
          }
        };
        return;
      }
    }
  }

  changeFile(record: IFileChange): void {
    this._changesOf(record.turn).files.add(record.path);
  }

  revertTurn(record: IRevertRecord): void {
    const index = this._turns.get(record.turn ?? '');
    const item = index === undefined ? undefined : this._items[index];
    if (index !== undefined && item?.kind === 'turn') {
      this._items[index] = revertedTurn(item, record);
    }
  }

  /**
   * End a turn: stop its open calls and void its open approvals. Runs that outlasted their call
   * are still going on.
   */
  endTurn(record: ITurnEnd): void {
    for (const index of this._openTools) {
      const tool = this._items[index];
      if (tool.kind === 'tool' && !tool.goesOn) {
        this._items[index] = stoppedTool(tool);
        this._openTools.delete(index);
      }
    }
    for (const index of this._approvals.values()) {
      const item = this._items[index];
      if (item.kind === 'approval') {
        this._items[index] = { ...item, approval: voided(item.approval) };
      }
    }
    this._approvals.clear();
    const { cells, files } = this._changesOf(record.turn);
    this.add(turnItem(record, { cells: cells.size, files: files.size }));
    this._turns.set(record.turn ?? '', this._items.length - 1);
    this._changes.delete(record.turn ?? '');
  }

  endCompaction(record: ICompactionEnd): void {
    const index = this._compactions.get(record.compaction_id);
    const item = endedCompaction(record);
    if (index === undefined) {
      this.add(item);
    } else {
      this._items[index] = item;
    }
  }

  addRestore(record: IRestore): void {
    const item = restoreItem(record);
    const told = record.names ?? {};
    this._settleLoadable(name => name in told);
    if (item) {
      this._settleOffers();
      this.add(item);
    }
  }

  private _changesOf(turn = ''): { cells: Set<string>; files: Set<string> } {
    let changes = this._changes.get(turn);
    if (!changes) {
      changes = { cells: new Set(), files: new Set() };
      this._changes.set(turn, changes);
    }
    return changes;
  }

  /** Withdraw all offers to restore or load, because the snapshots were deleted. */
  settleSaved(): void {
    this._settleOffers();
    this._settleLoadable(() => true);
  }

  /** Withdraw earlier offers to load these names: only the latest restore of a name counts. */
  private _settleLoadable(settles: (name: string) => boolean): void {
    this._items.forEach((item, index) => {
      if (item.kind !== 'restore') {
        return;
      }
      const settled = (entry: IMissingName): boolean =>
        entry.loadableFrom !== null && settles(entry.name);
      if (item.missing.some(settled)) {
        const missing = item.missing.map(entry =>
          settled(entry) ? { ...entry, loadableFrom: null } : entry
        );
        this._items[index] = { ...item, missing };
      }
    });
  }

  /** Withdraw earlier offers to restore, which a later restore supersedes. */
  private _settleOffers(): void {
    this._items.forEach((item, index) => {
      if (item.kind === 'restore' && item.snapshotId !== null) {
        this._items[index] = { ...item, snapshotId: null };
      }
    });
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

  private _items: Item[] = [];
  // Indices into `_items`. They stay valid because items are only appended or replaced.
  private _tools = new Map<string, number>();
  private _openTools = new Set<number>();
  private _approvals = new Map<string, number>();
  private _compactions = new Map<string, number>();
  private _turns = new Map<string, number>();
  /** Cells and files that the agent has changed, by turn, for turns that have not ended. */
  private _changes = new Map<
    string,
    { cells: Set<string>; files: Set<string> }
  >();
}

/** Whether the operation changed a cell's source or position; a run changes only its outputs. */
function changesCell(record: INotebookOp): boolean {
  const { op, status, before, after, reverts } = record;
  return (
    status === 'applied' &&
    op !== 'run_cell' &&
    reverts === undefined &&
    (before?.source !== after?.source || before?.index !== after?.index)
  );
}
