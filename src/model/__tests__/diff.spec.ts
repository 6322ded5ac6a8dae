import { fencedDiff, lineDiff } from '../diff';

describe('lineDiff', () => {
  it('shows the changes with a few lines of context', () => {
    const before = 'a\nb\nc\nd\ne\nf\ng';
    expect(lineDiff(before, before.replace('f', 'F'))).toEqual([
      { kind: 'gap', text: '' },
      { kind: 'same', text: 'd' },
      { kind: 'same', text: 'e' },
      { kind: 'removed', text: 'f' },
      { kind: 'added', text: 'F' },
      { kind: 'same', text: 'g' }
    ]);
  });

  it('does not call the last line changed when one is added below it', () => {
    expect(lineDiff('a', 'a\nb').map(({ kind }) => kind)).toEqual([
      'same',
      'added'
    ]);
  });

  it('shows both texts if comparing them would take too long', () => {
    const text = (name: string): string =>
      Array.from({ length: 3000 }, (_, index) =>
        index % 10 === 0 ? `same ${index}` : `${name} ${index}`
      ).join('\n');
    const lines = lineDiff(text('old'), text('new'));
    expect(lines).toHaveLength(6000);
    expect(lines[2999]).toEqual({ kind: 'removed', text: 'old 2999' });
    expect(lines[3000]).toEqual({ kind: 'added', text: 'same 0' });
  });
});

describe('fencedDiff', () => {
  const patch = (...lines: string[]): string =>
    ['```diff', '--- a/cell 3f2a', '+++ b/cell 3f2a', ...lines, '```'].join(
      '\n'
    );

  it('has the lines, but not the file names', () => {
    expect(
      fencedDiff(patch('@@ -1,3 +1,3 @@', ' a', '--- b', '+++ c', ' '))
    ).toEqual([
      { kind: 'same', text: 'a' },
      { kind: 'removed', text: '-- b' },
      { kind: 'added', text: '++ c' },
      { kind: 'same', text: '' }
    ]);
  });

  it('shows where lines are left out', () => {
    expect(
      fencedDiff(
        patch('@@ -7 +7 @@', '-a', '@@ -90 +89 @@', '+b', '… 12 more lines')
      )
    ).toEqual([
      { kind: 'gap', text: '' },
      { kind: 'removed', text: 'a' },
      { kind: 'gap', text: '' },
      { kind: 'added', text: 'b' },
      { kind: 'gap', text: '… 12 more lines' }
    ]);
  });

  it('reads a new file, and fences within', () => {
    expect(
      fencedDiff(
        '````diff\n--- /dev/null\n+++ b/a.md\n@@ -0,0 +1 @@\n+```\n````'
      )
    ).toEqual([{ kind: 'added', text: '```' }]);
  });

  it.each([
    ['other code', '```python\n@@ -1 +1 @@\n```'],
    ['words', 'This will fail: there is no such cell.'],
    ['more than the diff', `${patch('@@ -1 +1 @@', '-a')}\nand words`],
    ['nothing changed', '```diff\n\n```']
  ])('is not there for %s', (_, markdown) => {
    expect(fencedDiff(markdown)).toBeNull();
  });
});
