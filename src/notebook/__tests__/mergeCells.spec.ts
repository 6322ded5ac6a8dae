import { Cell, differences, IConflict, mergeCells } from '../mergeCells';

/** A code cell, in short: `id source`, and behind a `:` the count and text of what it shows. */
function cell(short: string): Cell {
  const [head, shown] = short.split(':');
  const [id, source = ''] = head.split(' ');
  return {
    id,
    cell_type: 'code',
    source,
    metadata: {},
    execution_count: shown ? Number(shown[0]) : null,
    outputs: shown
      ? [{ output_type: 'stream', name: 'stdout', text: shown.slice(1) }]
      : []
  } as unknown as Cell;
}

function short({ id, source, execution_count, outputs }: Cell): string {
  const [output] = outputs as any[];
  return `${id} ${source}${output ? `:${execution_count}${output.text}` : ''}`;
}

const cells = (shorts: string): Cell[] =>
  shorts.split(', ').filter(Boolean).map(cell);
const merge = (
  base: string,
  mine: string,
  theirs: string,
  ...ranHere: string[]
) => mergeCells(cells(base), cells(mine), cells(theirs), new Set(ranHere));
const text = (shorts: { cells: Cell[] }) => shorts.cells.map(short).join(', ');

describe('mergeCells', () => {
  const CASES: [what: string, ...versions: string[]][] = [
    ['nothing', 'a 1, b 2', 'a 1, b 2', 'a 1, b 2', 'a 1, b 2'],
    ['typed', 'a 1, b 2', 'a 1!, b 2', 'a 1, b 2', 'a 1!, b 2'],
    ['edited there', 'a 1, b 2', 'a 1, b 2', 'a 1, b 9', 'a 1, b 9'],
    ['both, elsewhere', 'a 1, b 2', 'a 1!, b 2', 'a 1, b 9', 'a 1!, b 9'],
    ['both alike', 'a 1', 'a 3', 'a 3', 'a 3'],
    ['run there', 'a 1:1x', 'a 1:1x', 'a 1:2y', 'a 1:2y'],
    ['run there, begun here', 'a 1', 'a 1:0y', 'a 1:2yz', 'a 1:2yz'],
    ['typed and run there', 'a 1:1x', 'a 1!:1x', 'a 1:2y', 'a 1!:2y'],
    ['run here', 'a 1, b 2', 'a 1:3x, b 2', 'a 1, b 9', 'a 1:3x, b 9'],
    ['cleared here', 'a 1:1x, b 2', 'a 1, b 2', 'a 1:1x, b 9', 'a 1, b 9'],
    [
      'inserted there',
      'a 1, b 2',
      'a 1!, b 2',
      'a 1, n 0, b 2',
      'a 1!, n 0, b 2'
    ],
    ['inserted here', 'a 1, b 2', 'a 1, n 0, b 2', 'a 1, b 9', 'a 1, n 0, b 9'],
    ['inserted at the top', 'a 1', 'm 0, a 1', 'a 9', 'm 0, a 9'],
    [
      'inserted on both sides',
      'a 1, b 2',
      'a 1, m 0, b 2',
      'a 1, t 0, u 0, b 2',
      'a 1, m 0, t 0, u 0, b 2'
    ],
    ['two inserted here', 'a 1', 'a 1, m 0, n 0', 'a 9', 'a 9, m 0, n 0'],
    ['the same cell inserted', 'a 1', 'a 1, n 0', 'a 1, n 0:1x', 'a 1, n 0:1x'],
    ['deleted there', 'a 1, b 2', 'a 1!, b 2', 'a 1', 'a 1!'],
    ['deleted here', 'a 1, b 2', 'a 1', 'a 9, b 2', 'a 9'],
    ['deleted on both sides', 'a 1, b 2', 'a 1', 'a 1', 'a 1'],
    [
      'inserted behind a cell that was deleted there',
      'a 1, b 2, c 3',
      'a 1, b 2, n 0, c 3',
      'a 1, c 3',
      'a 1, n 0, c 3'
    ],
    [
      'moved there',
      'a 1, b 2, c 3',
      'a 1!, b 2, c 3',
      'c 3, a 1, b 2',
      'c 3, a 1!, b 2'
    ],
    [
      'moved here',
      'a 1, b 2, c 3',
      'c 3, a 1, b 2',
      'a 1, b 2, n 0, c 3',
      'c 3, a 1, b 2, n 0'
    ],
    [
      'moved on both sides',
      'a 1, b 2, c 3',
      'b 2, a 1, c 3',
      'c 3, a 1, b 2',
      'b 2, a 1, c 3'
    ],
    ['emptied there', 'a 1', 'a 1', '', '']
  ];

  it.each(CASES)('merges: %s', (_, base, mine, theirs, expected) => {
    const merged = merge(base, mine, theirs);
    expect(text(merged)).toBe(expected);
    expect(merged.conflicts).toEqual([]);
  });

  const CONFLICTS: [
    what: string,
    base: string,
    mine: string,
    theirs: string,
    expected: string,
    conflict: IConflict
  ][] = [
    [
      'edited on both sides',
      'a 1',
      'a 2',
      'a 3',
      'a 2',
      { id: 'a', mine: '2', theirs: '3' }
    ],
    [
      'inserted on both sides, and edited since',
      'a 1',
      'a 1, n 2',
      'a 1, n 3',
      'a 1, n 2',
      { id: 'n', mine: '2', theirs: '3' }
    ],
    [
      'typed into and deleted there',
      'a 1, b 2',
      'a 1, b 2!',
      'a 1',
      'a 1, b 2!',
      { id: 'b', mine: '2!', theirs: null }
    ],
    [
      'deleted here and edited there',
      'a 1, b 2, c 3',
      'a 1, c 3',
      'a 1, b 9, c 3',
      'a 1, b 9, c 3',
      { id: 'b', mine: null, theirs: '9' }
    ],
    [
      'deleted here and run there',
      'a 1',
      '',
      'a 1:1x',
      'a 1:1x',
      { id: 'a', mine: null, theirs: '1' }
    ]
  ];

  it.each(CONFLICTS)(
    'reports a conflict: %s',
    (_, base, mine, theirs, expected, conflict) => {
      const merged = merge(base, mine, theirs);
      expect(text(merged)).toBe(expected);
      expect(merged.conflicts).toEqual([conflict]);
    }
  );

  const SIDES = [...CASES, ...CONFLICTS] as [string, string, string, string][];

  it.each(SIDES)(
    'takes the other side if one is unchanged: %s',
    (_, base, mine, theirs) => {
      expect(text(merge(base, base, theirs))).toBe(theirs);
      expect(text(merge(base, mine, base))).toBe(mine);
      expect(text(merge(base, theirs, theirs))).toBe(theirs);
    }
  );

  it.each(SIDES)(
    'loses nothing that was typed, and keeps each cell once: %s',
    (_, base, mine, theirs) => {
      const merged = merge(base, mine, theirs).cells;
      const known = new Map(cells(base).map(({ id, source }) => [id, source]));
      for (const { id, source } of cells(mine)) {
        if (known.get(id) !== source) {
          expect(merged).toContainEqual(
            expect.objectContaining({ id, source })
          );
        }
      }
      expect(new Set(merged.map(({ id }) => id)).size).toBe(merged.length);
    }
  );

  it('keeps a run of the user that is later than the server’s', () => {
    const versions = ['a 1:1x', 'a 1:3mine', 'a 1:2theirs'] as const;
    expect(text(merge(...versions, 'a'))).toBe('a 1:3mine');
    expect(text(merge(...versions))).toBe('a 1:2theirs');
    // It was run here and saved, and by the server since.
    expect(text(merge('a 1:1x', 'a 1:1x', 'a 1:2theirs', 'a'))).toBe(
      'a 1:2theirs'
    );
  });

  it('tells which outputs are the server’s, and trusts them as it does', () => {
    const [base] = cells('a 1:1x');
    const mine = { ...base, metadata: { trusted: true } };
    const theirs = { ...cell('a 1:2y'), metadata: { trusted: false } };
    const merged = mergeCells([base], [mine], [theirs], new Set());
    expect([...merged.shown]).toEqual(['a']);
    expect(merged.cells[0].metadata).toEqual({ trusted: false });
    const same = mergeCells(
      [base],
      [mine],
      [{ ...base, metadata: { trusted: false } }],
      new Set()
    );
    expect([...same.shown]).toEqual([]);
    expect(same.cells[0].metadata).toEqual({ trusted: true });
  });

  it('merges metadata by key, and keeps a changed cell type', () => {
    const [base] = cells('a 1');
    const [merged] = mergeCells(
      [{ ...base, metadata: { tags: ['old'], collapsed: true } }],
      [{ ...base, cell_type: 'markdown', metadata: { tags: ['mine'] } }],
      [{ ...base, metadata: { tags: ['old'], collapsed: true, name: 'n' } }],
      new Set()
    ).cells;
    expect(merged).toEqual({
      id: 'a',
      cell_type: 'markdown',
      source: '1',
      metadata: { tags: ['mine'], name: 'n' }
    });
  });
});

describe('differences', () => {
  it('names the cells whose source differs, and those of one side only', () => {
    const [mine, theirs] = ['a 1, b 2, c 3', 'b 2, a 4, d 5'].map(cells);
    expect(differences(mine, theirs)).toEqual([
      { id: 'a', mine: '1', theirs: '4' },
      { id: 'c', mine: '3', theirs: null },
      { id: 'd', mine: null, theirs: '5' }
    ]);
  });

  it('compares cells without ids by position', () => {
    const bare = (shorts: string) =>
      cells(shorts).map(({ id, ...cell }) => cell);
    expect(differences(bare('a 1, b 2'), cells('x 1, y 3'))).toEqual([
      { id: '1', mine: '2', theirs: '3' }
    ]);
  });
});
