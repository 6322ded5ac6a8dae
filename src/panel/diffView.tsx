import { diffLines } from 'diff';
import * as React from 'react';

import { usePanel } from './context';

/** Unchanged lines kept around a change. */
const CONTEXT_LINES = 2;

export interface IDiffLine {
  readonly kind: 'added' | 'removed' | 'same' | 'gap';
  readonly text: string;
}

/** What changed, line by line, with a little of what did not. */
export function DiffView(props: {
  before: string;
  after: string;
}): JSX.Element {
  const { trans } = usePanel();
  const lines = React.useMemo(
    () => lineDiff(props.before, props.after),
    [props.before, props.after]
  );
  const labels = {
    added: trans.__('added'),
    removed: trans.__('removed'),
    same: undefined,
    gap: trans.__('unchanged lines')
  };
  const marks = { added: '+', removed: '−', same: ' ', gap: '⋯' };
  return (
    <pre
      className="jp-prime-Diff"
      tabIndex={0}
      aria-label={trans.__('Changes')}
    >
      {lines.map((line, index) => (
        <span key={index} className="jp-prime-Diff-line" data-kind={line.kind}>
          <span className="jp-prime-Diff-mark" aria-hidden="true">
            {marks[line.kind]}
          </span>
          {labels[line.kind] && (
            <span className="jp-prime-VisuallyHidden">{labels[line.kind]}</span>
          )}
          <span>{line.text}</span>
        </span>
      ))}
    </pre>
  );
}

export function lineDiff(before: string, after: string): IDiffLine[] {
  const lines: IDiffLine[] = [];
  for (const part of diffLines(endLine(before), endLine(after))) {
    const kind = part.added ? 'added' : part.removed ? 'removed' : 'same';
    for (const text of part.value.replace(/\n$/, '').split('\n')) {
      lines.push({ kind, text });
    }
  }
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

/** A last line without its newline would count as changed when one is added below it. */
function endLine(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}
