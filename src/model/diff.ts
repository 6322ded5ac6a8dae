import { diffLines } from 'diff';

/** Unchanged lines kept around a change. */
const CONTEXT_LINES = 2;

/**
 * Number of changed lines up to which the texts are compared. The comparison is quadratic in it:
 * 4,000 changed lines take a second, in which the page is frozen.
 */
const MAX_CHANGED_LINES = 1000;

export interface IDiffLine {
  readonly kind: 'added' | 'removed' | 'same' | 'gap';
  readonly text: string;
}

/**
 * Return the changed lines, with `CONTEXT_LINES` unchanged lines around each change. If too many
 * lines have changed, return all lines of both texts.
 */
export function lineDiff(before: string, after: string): IDiffLine[] {
  const parts = diffLines(endLine(before), endLine(after), {
    maxEditLength: MAX_CHANGED_LINES
  });
  if (parts === undefined) {
    return [...linesOf(before, 'removed'), ...linesOf(after, 'added')];
  }
  const lines = parts.flatMap(({ value, added, removed }) =>
    linesOf(value, added ? 'added' : removed ? 'removed' : 'same')
  );
  const near = lines.map((_, index) =>
    lines
      .slice(Math.max(0, index - CONTEXT_LINES), index + CONTEXT_LINES + 1)
      .some(({ kind }) => kind !== 'same')
  );
  return lines.flatMap((line, index): IDiffLine[] => {
    if (near[index]) {
      return [line];
    }
    return index > 0 && !near[index - 1] ? [] : [{ kind: 'gap', text: '' }];
  });
}

function linesOf(text: string, kind: IDiffLine['kind']): IDiffLine[] {
  return text
    .replace(/\n$/, '')
    .split('\n')
    .map(text => ({ kind, text }));
}

/** Terminate the last line; otherwise it would count as changed when a line is added below it. */
function endLine(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}

const FENCED_DIFF = /^(`{3,})diff\n([^]*?)\n\1\s*$/;

/**
 * Return the lines of a unified diff in Markdown that consists of a single fenced `diff` block, or
 * `null` for any other Markdown.
 */
export function fencedDiff(markdown: string): IDiffLine[] | null {
  const patch = FENCED_DIFF.exec(markdown)?.[2].split('\n');
  const first = patch?.findIndex(line => line.startsWith('@@')) ?? -1;
  if (!patch || first < 0) {
    return null;
  }
  // Only the file names precede the first hunk.
  return patch.slice(first).flatMap((line, index): IDiffLine[] => {
    switch (line[0]) {
      case '@':
        return index === 0 && startsAtTop(line)
          ? []
          : [{ kind: 'gap', text: '' }];
      case '+':
        return [{ kind: 'added', text: line.slice(1) }];
      case '-':
        return [{ kind: 'removed', text: line.slice(1) }];
      case ' ':
        return [{ kind: 'same', text: line.slice(1) }];
      default:
        return [{ kind: 'gap', text: line }];
    }
  });
}

function startsAtTop(hunk: string): boolean {
  return /^@@ -[01](,\d+)? /.test(hunk);
}
