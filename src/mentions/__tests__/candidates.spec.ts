import { CandidateKind, ICandidate, rank } from '../candidates';

function candidate(
  kind: CandidateKind,
  label: string,
  more: Partial<ICandidate> = {}
): ICandidate {
  return {
    kind,
    label,
    detail: '',
    mention: `@${label}`,
    attachment: null,
    words: [label],
    ...more
  };
}

function labels(candidates: ICandidate[], query: string): string[][] {
  return rank(candidates, query).map(group =>
    group.candidates.map(({ label }) => label)
  );
}

const cells = [1, 2, 3, 4, 5, 6, 7, 8].map(n =>
  candidate('cell', `Cell ${n}`, {
    words: [`cell-${n}`, `${n}`],
    content: n === 7 ? 'penguins.plot()' : 'x = 1',
    weight: -Math.abs(n - 6)
  })
);

describe('rank', () => {
  it('shows the nearest candidates of each group for an empty query, in their order', () => {
    const variables = ['c', 'b', 'a'].map(name => candidate('variable', name));
    expect(
      labels([...variables, ...cells, candidate('selection', 'Selection')], '')
    ).toEqual([
      ['Selection'],
      ['Cell 4', 'Cell 5', 'Cell 6', 'Cell 7', 'Cell 8'],
      ['c', 'b', 'a']
    ]);
  });

  it('puts the best first, and its group before the others', () => {
    const all = [
      ...cells,
      candidate('variable', 'my_penguins'),
      candidate('variable', 'penguins'),
      candidate('file', 'penguins.csv')
    ];
    expect(labels(all, 'Penguins')).toEqual([
      ['penguins', 'my_penguins'],
      ['penguins.csv'],
      ['Cell 7']
    ]);
  });

  it('finds a cell by its number, alone or with the word', () => {
    expect(labels(cells, '3')).toEqual([['Cell 3']]);
    expect(labels(cells, 'cell-3')).toEqual([['Cell 3']]);
  });

  it('prefers the beginning of a word to its middle', () => {
    const all = [candidate('variable', 'xdf'), candidate('variable', 'old_df')];
    expect(labels(all, 'df')).toEqual([['old_df', 'xdf']]);
  });

  it('finds names with accents, however these are written', () => {
    const apart = 'Größe é.csv'.normalize('NFD');
    expect(labels([candidate('file', apart)], 'größe é')).toEqual([[apart]]);
  });

  it('shows no candidate that does not match', () => {
    expect(rank(cells, 'nothing')).toEqual([]);
  });

  it('keeps lists short', () => {
    const many = Array.from({ length: 500 }, (_, n) =>
      candidate('variable', `v${n}`)
    );
    expect(labels(many, 'v')[0]).toHaveLength(8);
  });
});
