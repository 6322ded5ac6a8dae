import { YNotebook } from '@jupyter/ydoc';
import { NotebookModel } from '@jupyterlab/notebook';

import { sourceHash } from '../hash';
import { applyEdit, readCells } from '../operations';
import {
  changes,
  code,
  display,
  failure,
  ids,
  notebook,
  sources,
  stream
} from './sharedNotebook';

describe('applyEdit', () => {
  it.each([
    [null, ['1', '2', 'new']],
    ['', ['new', '1', '2']],
    ['a', ['1', 'new', '2']]
  ])('inserts after %p', (after, expected) => {
    const shared = notebook('1', '2');
    const op = {
      op: 'insert_cell' as const,
      cell_id: 'new',
      source: 'new',
      cell_type: 'code' as const,
      after
    };
    const { before, after: state } = applyEdit(shared, op);
    expect(sources(shared)).toEqual(expected);
    expect(before).toBeNull();
    expect(state).toMatchObject({
      source: 'new',
      cell_type: 'code',
      index: expected.indexOf('new')
    });
    applyEdit(shared, op);
    expect(sources(shared)).toEqual(expected);
  });

  it('inserts Markdown', () => {
    const shared = notebook();
    applyEdit(shared, {
      op: 'insert_cell',
      cell_id: 'm',
      source: '# Hi',
      cell_type: 'markdown',
      after: null
    });
    expect(shared.getCell(0).toJSON()).toMatchObject({
      id: 'm',
      cell_type: 'markdown',
      source: '# Hi'
    });
  });

  it('edits a cell that has the expected source', () => {
    const shared = notebook('x = 1', '2');
    const result = applyEdit(shared, {
      op: 'edit_cell',
      cell_id: 'a',
      source: 'x = 2',
      expected_hash: sourceHash('x = 1')
    });
    expect(sources(shared)).toEqual(['x = 2', '2']);
    expect(result.before!.source).toBe('x = 1');
    expect(result.after!.source).toBe('x = 2');
  });

  it.each([
    ['', 'a'],
    ['a', ''],
    ['aaa', 'aa'],
    ['abcabc', 'abc'],
    ['x = 😀', 'x = 😁'],
    ['😀😀', '😀'],
    ['😀', '🌀'],
    ['one\ntwo\nthree', 'one\n2\nthree']
  ])('turns %p into %p', (from, to) => {
    const shared = notebook(from);
    applyEdit(shared, {
      op: 'edit_cell',
      cell_id: 'a',
      source: to,
      expected_hash: sourceHash(from)
    });
    expect(sources(shared)).toEqual([to]);
    expect(shared.getCell(0).ysource.toString()).toBe(to);
  });

  it('is a separate undo step from changes just before and after it', () => {
    const shared = notebook('1', '2');
    const remove = (id: string, source: string) =>
      applyEdit(shared, {
        op: 'delete_cell',
        cell_id: id,
        expected_hash: sourceHash(source)
      });
    remove('a', '1');
    remove('b', '2');
    shared.addCell({ cell_type: 'code', source: 'mine' });
    expect(sources(shared)).toEqual(['mine']);
    shared.undo();
    expect(sources(shared)).toEqual([]);
    shared.undo();
    expect(sources(shared)).toEqual(['2']);
    shared.undo();
    expect(sources(shared)).toEqual(['1', '2']);
  });

  it('can be undone in the cell, in one step', () => {
    const shared = notebook('x = 1');
    const cell = shared.getCell(0);
    cell.clearUndoHistory();
    applyEdit(shared, {
      op: 'edit_cell',
      cell_id: 'a',
      source: 'y = 2',
      expected_hash: sourceHash('x = 1')
    });
    cell.undo();
    expect(cell.source).toBe('x = 1');
    expect(cell.canUndo()).toBe(false);
  });

  it('refuses to edit a cell that has changed', () => {
    const shared = notebook('by the user');
    const error = failure(() =>
      applyEdit(shared, {
        op: 'edit_cell',
        cell_id: 'a',
        source: 'by the agent',
        expected_hash: sourceHash('before')
      })
    );
    expect(error.code).toBe('cell_conflict');
    expect(error.details.source).toBe('by the user');
    expect(sources(shared)).toEqual(['by the user']);
  });

  it('brings a deleted cell back with its outputs', () => {
    const shared = notebook('1', '2', '3');
    code(shared, 1).setOutputs([display('two')]);
    code(shared, 1).execution_count = 7;
    const whole = shared.getCell(1).toJSON();
    const { before } = applyEdit(shared, {
      op: 'delete_cell',
      cell_id: 'b',
      expected_hash: sourceHash('2')
    });
    expect(before).toMatchObject({ index: 1, prev: 'a', next: 'c' });
    applyEdit(shared, {
      op: 'insert_cell',
      cell_id: 'b',
      source: '2',
      cell_type: 'code',
      after: before!.prev,
      cell: before!.cell
    });
    expect(ids(shared)).toEqual(['a', 'b', 'c']);
    expect(shared.getCell(1).toJSON()).toEqual(whole);
  });

  it('leaves a cell that is locked as it is, unless it undoes something', () => {
    const shared = notebook('1');
    shared.getCell(0).setMetadata('editable', false);
    shared.getCell(0).setMetadata('deletable', false);
    const edit = { op: 'edit_cell' as const, cell_id: 'a', source: '2' };
    const remove = { op: 'delete_cell' as const, cell_id: 'a' };
    const hash = { expected_hash: sourceHash('1') };
    for (const op of [edit, remove]) {
      const error = failure(() => applyEdit(shared, { ...op, ...hash }));
      expect(error.code).toBe('cell_locked');
    }
    expect(sources(shared)).toEqual(['1']);
    applyEdit(shared, { ...edit, ...hash, undo: true });
    expect(sources(shared)).toEqual(['2']);
    applyEdit(shared, {
      ...remove,
      expected_hash: sourceHash('2'),
      undo: true
    });
    expect(sources(shared)).toEqual([]);
  });

  it('refuses to delete a cell that has changed', () => {
    const shared = notebook('by the user');
    const op = { op: 'delete_cell' as const, cell_id: 'a' };
    expect(
      failure(() => applyEdit(shared, { ...op, expected_hash: 'other' })).code
    ).toBe('cell_conflict');
    const { before, after } = applyEdit(shared, {
      ...op,
      expected_hash: sourceHash('by the user')
    });
    expect(before!.source).toBe('by the user');
    expect(after).toBeNull();
    expect(sources(shared)).toEqual([]);
  });

  it.each([
    ['a', 'c', 'bcad'],
    ['a', 'd', 'bcda'],
    ['d', '', 'dabc'],
    ['c', 'a', 'acbd'],
    ['b', 'a', 'abcd'],
    ['b', 'b', 'abcd']
  ])('moves %p after %p', (cell_id, after, expected) => {
    const shared = notebook('1', '2', '3', '4');
    const result = applyEdit(shared, { op: 'move_cell', cell_id, after });
    expect(ids(shared).join('')).toBe(expected);
    expect(result.after!.index).toBe(expected.indexOf(cell_id));
  });

  it('moves a running cell, which keeps running', () => {
    const shared = notebook('1', '2');
    code(shared, 0).executionState = 'running';
    applyEdit(shared, { op: 'move_cell', cell_id: 'a', after: 'b' });
    expect(code(shared, 1).executionState).toBe('running');
  });

  it.each([
    { op: 'edit_cell', cell_id: 'x', source: '', expected_hash: '' },
    { op: 'delete_cell', cell_id: 'x', expected_hash: '' },
    { op: 'move_cell', cell_id: 'x', after: 'a' },
    { op: 'move_cell', cell_id: 'a', after: 'x' },
    {
      op: 'insert_cell',
      cell_id: 'new',
      source: '',
      cell_type: 'raw',
      after: 'x'
    }
  ] as const)('says which cell is missing: %p', op => {
    const shared = notebook('1');
    const error = failure(() => applyEdit(shared, op));
    expect([error.code, error.details.cell_id]).toEqual([
      'cell_not_found',
      'x'
    ]);
    expect(ids(shared)).toEqual(['a']);
  });

  it('is one transaction', () => {
    const shared = notebook('1', '2');
    for (const op of [
      {
        op: 'insert_cell',
        cell_id: 'new',
        source: 's',
        cell_type: 'code',
        after: null
      },
      {
        op: 'edit_cell',
        cell_id: 'a',
        source: 'changed',
        expected_hash: sourceHash('1')
      },
      { op: 'move_cell', cell_id: 'b', after: '' },
      { op: 'delete_cell', cell_id: 'b', expected_hash: sourceHash('2') }
    ] as const) {
      expect(changes(shared, () => applyEdit(shared, op))).toBe(1);
    }
  });

  it('keeps the cell ids of an old notebook', () => {
    const model = new NotebookModel();
    model.fromJSON({
      nbformat: 4,
      nbformat_minor: 2,
      metadata: {},
      cells: [
        {
          cell_type: 'code',
          source: '1',
          metadata: {},
          outputs: [],
          execution_count: null
        }
      ]
    });
    const shared = model.sharedModel as YNotebook;
    const [id] = ids(shared);
    applyEdit(shared, {
      op: 'edit_cell',
      cell_id: id,
      source: '2',
      expected_hash: sourceHash('1')
    });
    const saved = model.toJSON() as any;
    expect(saved.nbformat_minor).toBe(5);
    expect(saved.cells[0].id).toBe(id);
    model.dispose();
  });
});

describe('readCells', () => {
  it('reads one cell with its unsaved changes', () => {
    const shared = notebook('1', '2');
    code(shared, 1).executionState = 'running';
    code(shared, 1).execution_count = 5;
    expect(readCells(shared, { op: 'read', cell_id: 'b' })).toEqual({
      cells: [
        {
          id: 'b',
          cell_type: 'code',
          source: '2',
          metadata: {},
          index: 1,
          execution_count: 5,
          outputs: [],
          running: true
        }
      ],
      next: null
    });
  });

  it('omits figures and cuts long text', () => {
    const shared = notebook('1');
    code(shared, 0).setOutputs([
      stream('x'.repeat(100_000)),
      {
        output_type: 'display_data',
        data: { 'image/png': 'p'.repeat(50_000), 'text/plain': 'Figure' },
        metadata: {}
      },
      {
        output_type: 'error',
        ename: 'E',
        evalue: 'v',
        traceback: ['a', 'b']
      }
    ] as any);
    const [cell] = readCells(shared, { op: 'read', start: 0 }).cells;
    expect(cell.outputs[0].text.length).toBeLessThan(5000);
    expect(cell.outputs[1].data).toEqual({
      'image/png': { chars: 50_000 },
      'text/plain': 'Figure'
    });
    expect(cell.outputs[2].traceback).toEqual(['a\nb']);
  });

  it('reads a large notebook in pieces', () => {
    const shared = notebook();
    shared.insertCells(
      0,
      Array.from({ length: 30 }, (_, i) => ({
        id: `c${i}`,
        cell_type: 'raw',
        source: 'x'.repeat(200_000)
      }))
    );
    const read: string[] = [];
    let start: number | null = 0;
    let pieces = 0;
    while (start !== null) {
      const piece: { cells: any[]; next: number | null } = readCells(shared, {
        op: 'read',
        start
      });
      expect(JSON.stringify(piece).length).toBeLessThan(2_100_000);
      read.push(...piece.cells.map(cell => cell.id));
      start = piece.next;
      pieces++;
    }
    expect(read).toEqual(ids(shared));
    expect(pieces).toBeGreaterThan(1);
  });
});
