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

/** A call in one of these has no result yet, or what it runs goes on. */
const OPEN: readonly ToolStatus[] = [
  'writing',
  'waiting',
  'approval',
  'running'
];

/**
 * The items that the records have made so far, in order. A later record finds the item that it is
 * about (a call, an approval, a compaction) and replaces it.
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
   * A call goes on; without effect once it has its result, unless its run outlasts that.
   *
   * @param progress.startedAt - Milliseconds since the epoch; the first one told holds.
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
   * The record does not name the call: it belongs to the first open call of its turn that does
   * this to this cell. A new cell's id is known only from here.
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

  /** Calls and approvals still open end with their turn; what ignored its Stop goes on. */
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

  /** What was saved is deleted: nothing can be restored from it any more. */
  settleSaved(): void {
    this._settleOffers();
    this._settleLoadable(() => true);
  }

  /** The last word on a name is the one that says whether it can still be loaded. */
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

  /** What came after an offer to restore has answered it. */
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
  // Where in `_items`: items are only appended or replaced, so positions hold.
  private _tools = new Map<string, number>();
  private _openTools = new Set<number>();
  private _approvals = new Map<string, number>();
  private _compactions = new Map<string, number>();
  private _turns = new Map<string, number>();
  /** What the agent has changed in turns that have not ended. */
  private _changes = new Map<
    string,
    { cells: Set<string>; files: Set<string> }
  >();
}

/** Whether a cell is another than before: runs change only outputs. */
function changesCell(record: INotebookOp): boolean {
  const { op, status, before, after, reverts } = record;
  return (
    status === 'applied' &&
    op !== 'run_cell' &&
    reverts === undefined &&
    (before?.source !== after?.source || before?.index !== after?.index)
  );
}
