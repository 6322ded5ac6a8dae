/**
 * Three-way merge of the cells of a notebook that have changed independently in a page and in the
 * file. Pure functions.
 */
import * as nbformat from '@jupyterlab/nbformat';
import { JSONExt, PartialJSONValue } from '@lumino/coreutils';

/** A cell of nbformat 4.5. */
export type Cell = nbformat.ICell & { id: string };

/** A cell that both sides have changed differently; `null`: the cell was deleted on that side. */
export interface IConflict {
  id: string;
  mine: string | null;
  theirs: string | null;
}

export interface IMerge {
  cells: Cell[];
  conflicts: IConflict[];
  /** Ids of the cells whose outputs come from the file. */
  shown: Set<string>;
}

/**
 * Merge the changes that both sides have made to `base`, cell by cell. No text of the user is lost:
 * if both have changed a source, the page's version is kept, and a cell that one side has changed
 * survives its deletion by the other.
 *
 * The outputs of a newer run of the server replace older ones.
 *
 * @param ranHere - Ids of the cells that the user has run in the page since the server did.
 */
export function mergeCells(
  base: readonly Cell[],
  mine: readonly Cell[],
  theirs: readonly Cell[],
  ranHere: ReadonlySet<string>
): IMerge {
  const [was, here, there] = [base, mine, theirs].map(byId);
  const merged = new Map<string, Cell>();
  const conflicts: IConflict[] = [];
  const shown = new Set<string>();

  for (const id of new Set([...here.keys(), ...there.keys()])) {
    const [old, my, their] = [was.get(id), here.get(id), there.get(id)];
    if (my && their) {
      const outputs = pickOutputs(old, my, their, ranHere.has(id));
      if (outputs === their) {
        shown.add(id);
      }
      if (isConflict(old, my, their)) {
        conflicts.push({ id, mine: sourceOf(my), theirs: sourceOf(their) });
      }
      merged.set(id, mergeCell(old, my, their, outputs));
    } else if (my) {
      if (!old) {
        merged.set(id, my);
      } else if (sourceOf(my) !== sourceOf(old)) {
        merged.set(id, my);
        conflicts.push({ id, mine: sourceOf(my), theirs: null });
      }
    } else if (their) {
      if (!old) {
        merged.set(id, their);
        shown.add(id);
      } else if (
        sourceOf(their) !== sourceOf(old) ||
        !same(outputsOf(their), outputsOf(old))
      ) {
        merged.set(id, their);
        shown.add(id);
        conflicts.push({ id, mine: null, theirs: sourceOf(their) });
      }
    }
  }
  const order = mergeOrder(ids(base), ids(mine), ids(theirs), merged);
  return { cells: order.map(id => merged.get(id)!), conflicts, shown };
}

/**
 * Return the cells whose source differs between two versions of a notebook. Cells without ids are
 * matched by their position.
 */
export function differences(
  mine: readonly nbformat.ICell[],
  theirs: readonly nbformat.ICell[]
): IConflict[] {
  const areMatched = areNamed(mine) && areNamed(theirs);
  const [here, there] = [mine, theirs].map(
    cells =>
      new Map(
        cells.map((cell, index) => [
          areMatched ? String(cell.id) : String(index),
          sourceOf(cell)
        ])
      )
  );
  return [...new Set([...here.keys(), ...there.keys()])]
    .map(id => ({
      id,
      mine: here.get(id) ?? null,
      theirs: there.get(id) ?? null
    }))
    .filter(({ mine, theirs }) => mine !== theirs);
}

function mergeCell(
  base: Cell | undefined,
  mine: Cell,
  theirs: Cell,
  outputs: Cell
): Cell {
  const metadata: Record<string, unknown> = {};
  for (const key of Object.keys({ ...mine.metadata, ...theirs.metadata })) {
    const value = pick(
      base?.metadata[key],
      mine.metadata[key],
      theirs.metadata[key]
    );
    if (value !== undefined) {
      metadata[key] = value;
    }
  }
  // Trust belongs to outputs: equal ones are trusted if they are on either side. A file that another
  // program has written is trusted nowhere, although most of its outputs are those of the page.
  delete metadata.trusted;
  const trusted = same(outputsOf(mine), outputsOf(theirs))
    ? mine.metadata.trusted || theirs.metadata.trusted
    : outputs.metadata.trusted;
  if (trusted !== undefined) {
    metadata.trusted = trusted;
  }
  const cell_type = pick(base?.cell_type, mine.cell_type, theirs.cell_type);
  const attachments = pick(
    base?.attachments,
    mine.attachments,
    theirs.attachments
  );
  return {
    id: mine.id,
    cell_type,
    source: isConflict(base, mine, theirs)
      ? sourceOf(mine)
      : pick(base && sourceOf(base), sourceOf(mine), sourceOf(theirs)),
    metadata,
    ...(cell_type === 'code'
      ? outputsOf(outputs)
      : attachments && { attachments })
  } as Cell;
}

/** Return the side whose outputs are used. */
function pickOutputs(
  base: Cell | undefined,
  mine: Cell,
  theirs: Cell,
  ranHere: boolean
): Cell {
  const [old, my, their] = [base, mine, theirs].map(
    cell => cell && outputsOf(cell)
  );
  if (same(my, their) || same(old, their)) {
    return mine;
  }
  return ranHere && !same(old, my) ? mine : theirs;
}

function isConflict(base: Cell | undefined, mine: Cell, theirs: Cell): boolean {
  const [old, my, their] = [base, mine, theirs].map(
    cell => cell && sourceOf(cell)
  );
  return my !== their && my !== old && their !== old;
}

/** Merge a value three-way; if both sides have changed it, the page's value wins. */
function pick<T>(base: T | undefined, mine: T, theirs: T): T {
  return same(base, mine) ? theirs : mine;
}

/**
 * Merge the order of the cells: the server's order, or the page's if the user has moved cells. Each
 * cell of the other side goes after the cell that it follows there.
 */
function mergeOrder(
  base: string[],
  mine: string[],
  theirs: string[],
  kept: ReadonlyMap<string, unknown>
): string[] {
  const [frame, others] = isMoved(base, mine) ? [mine, theirs] : [theirs, mine];
  const order = frame.filter(id => kept.has(id));
  others.forEach((id, index) => {
    if (kept.has(id) && !order.includes(id)) {
      const before = others
        .slice(0, index)
        .reverse()
        .find(other => order.includes(other));
      order.splice(before === undefined ? 0 : order.indexOf(before) + 1, 0, id);
    }
  });
  return order;
}

function isMoved(base: string[], mine: string[]): boolean {
  const left = base.filter(id => mine.includes(id));
  const now = mine.filter(id => base.includes(id));
  return left.some((id, index) => id !== now[index]);
}

function outputsOf(cell: Cell): {
  outputs: nbformat.IOutput[];
  execution_count: number | null;
} {
  const { outputs, execution_count } = cell as Partial<nbformat.ICodeCell>;
  return {
    outputs: outputs ?? [],
    execution_count: execution_count ?? null
  };
}

export function sourceOf(cell: nbformat.ICell): string {
  return [cell.source].flat().join('');
}

function ids(cells: readonly Cell[]): string[] {
  return cells.map(cell => cell.id);
}

function byId(cells: readonly Cell[]): Map<string, Cell> {
  return new Map(cells.map(cell => [cell.id, cell]));
}

/** Whether every cell has a unique id, by which both sides can be matched. */
export function areNamed(cells: readonly nbformat.ICell[]): cells is Cell[] {
  const named = new Set(cells.map(cell => cell.id));
  return named.size === cells.length && !named.has(undefined);
}

/** Whether a file contains these cells. Trust is kept outside of the file. */
export function areSaved(
  cells: readonly Cell[],
  file: readonly Cell[]
): boolean {
  const [here, there] = [cells, file].map(side =>
    side.map(cell => ({
      ...cell,
      metadata: { ...cell.metadata, trusted: undefined }
    }))
  );
  return same(here, there);
}

export function same(one: unknown, other: unknown): boolean {
  return one === undefined || other === undefined
    ? one === other
    : JSONExt.deepEqual(one as PartialJSONValue, other as PartialJSONValue);
}
