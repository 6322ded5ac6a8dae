import * as React from 'react';

import { IDiffLine, lineDiff } from '../model/diff';
import { usePanel } from './context';
import { CopyButton } from './codeView';

/** A line diff of two texts. */
export function TextDiff(props: {
  before: string;
  after: string;
}): JSX.Element {
  const lines = React.useMemo(
    () => lineDiff(props.before, props.after),
    [props.before, props.after]
  );
  return <DiffView lines={lines} />;
}

/** A line diff between the version in the notebook and another one, with the names of both. */
export function Versions(props: {
  here: string;
  other: string;
  otherName: string;
}): JSX.Element {
  const { here, other, otherName } = props;
  const { trans } = usePanel();
  const hereName = trans.__('In the notebook');
  const lines = React.useMemo(() => lineDiff(here, other), [here, other]);
  return (
    <div className="jp-prime-Versions">
      <div className="jp-prime-Versions-names">
        <span data-kind="removed">
          <span aria-hidden="true">− </span>
          {hereName}
        </span>
        <span data-kind="added">
          <span aria-hidden="true">+ </span>
          {otherName}
        </span>
      </div>
      <div className="jp-prime-Code">
        <DiffView lines={lines} added={otherName} removed={hereName} />
        <div className="jp-prime-CodeActions">
          <CopyButton
            label={trans.__('Copy: %1', otherName)}
            text={() => other}
          />
        </div>
      </div>
    </div>
  );
}

/**
 * The lines of a diff.
 *
 * @param props.added - Screen reader label of a line that is only in the second text.
 * @param props.removed - Screen reader label of a line that is only in the first text.
 */
export function DiffView(props: {
  lines: readonly IDiffLine[];
  added?: string;
  removed?: string;
}): JSX.Element {
  const { trans } = usePanel();
  const labels = {
    added: props.added ?? trans.__('added'),
    removed: props.removed ?? trans.__('removed'),
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
      {props.lines.map((line, index) => (
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
