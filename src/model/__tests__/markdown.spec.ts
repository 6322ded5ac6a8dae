import { MarkdownSplitter } from '../markdown';
import { random } from './records';

function pieces(text: string): string[] {
  const { finished, tail } = new MarkdownSplitter().split(text);
  return [...finished, tail];
}

describe('MarkdownSplitter', () => {
  it('splits at blank lines between blocks', () => {
    expect(pieces('# Title\n\nFirst.\nGoes on.\n\nSecond.\n')).toEqual([
      '# Title\n\n',
      'First.\nGoes on.\n\n',
      'Second.\n'
    ]);
  });

  it('waits for a line to be complete before it splits there', () => {
    expect(pieces('First.\n\nSec')).toEqual(['First.\n\nSec']);
  });

  it.each([
    ['a fence', 'Text:\n\n```py\na = 1\n\nb = 2\n```\n\nDone.\n', 3],
    ['a longer fence', '````md\n```\n\n```\n\n````\n\nDone.\n', 2],
    ['display math', '$$\na\n\nb\n$$\n\nDone.\n', 2],
    ['an environment', '\\begin{align}\na\n\nb\n\\end{align}\n\nDone.\n', 2],
    ['a loose list', '1. one\n\n2. two\n\n   more\n\nDone.\n', 2],
    ['HTML', '<details>\n\ntext\n\n</details>\n', 1],
    ['an open fence', '```py\na = 1\n\nb = 2\n', 1]
  ])('keeps %s whole', (_, text, count) => {
    expect(pieces(text)).toHaveLength(count);
  });

  it('does not split a text with link definitions', () => {
    expect(pieces('See [a].\n\n[a]: https://example.org\n\nDone.\n')).toEqual([
      'See [a].\n\n[a]: https://example.org\n\nDone.\n'
    ]);
  });

  it('starts over with another text', () => {
    const splitter = new MarkdownSplitter();
    splitter.split('One.\n\nTwo.\n');
    expect(splitter.split('Other.\n\nText.\n')).toEqual({
      finished: ['Other.\n\n'],
      tail: 'Text.\n'
    });
  });

  it('never changes a finished piece, and loses nothing, however text arrives', () => {
    const parts = [
      '# Head\n',
      '\n',
      'Some *text* with `code`.\n',
      '- item\n',
      '  more\n',
      '```python\nx = 1\n\ny = 2\n```\n',
      '$$\ne = m\n\n$$\n',
      '| a | b |\n|---|---|\n| 1 | 2 |\n',
      '> quote\n'
    ];
    for (let seed = 1; seed <= 50; seed++) {
      const next = random(seed);
      let text = '';
      for (let i = 0; i < 30; i++) {
        text += parts[Math.floor(next() * parts.length)];
      }
      const splitter = new MarkdownSplitter();
      let finished: readonly string[] = [];
      for (let end = 0; end < text.length;) {
        end = Math.min(text.length, end + 1 + Math.floor(next() * 12));
        const now = splitter.split(text.slice(0, end));
        expect(now.finished.join('') + now.tail).toBe(text.slice(0, end));
        expect(now.finished.slice(0, finished.length)).toEqual(finished);
        finished = now.finished;
      }
      expect([...finished, splitter.split(text).tail]).toEqual(pieces(text));
    }
  });
});
