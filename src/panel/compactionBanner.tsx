import { TranslationBundle } from '@jupyterlab/translation';
import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ICompactionItem } from '../model/items';
import { compactionLine, summaryParts } from './compactionText';
import { usePanel } from './context';
import { duration, fullCount } from './format';
import { compactIcon } from './icons';
import { MarkdownView } from './markdownView';

/** A banner where the conversation was compacted; it expands to the summary for the model. */
export const CompactionBanner = React.memo(
  (props: { item: ICompactionItem }): JSX.Element => {
    const { item } = props;
    const { trans } = usePanel();
    const [open, setOpen] = React.useState(false);
    const bodyId = React.useId();
    const line = compactionLine(item, trans);
    if (item.status !== 'ok') {
      return (
        <div className="jp-prime-Compaction" data-status={item.status}>
          <span className="jp-prime-Compaction-line">
            {item.status === 'running' ? (
              <span className="jp-prime-Spinner" />
            ) : (
              <compactIcon.react tag="span" />
            )}
            <span className="jp-prime-Compaction-text">{line}</span>
          </span>
        </div>
      );
    }
    const Caret = open ? caretDownIcon : caretRightIcon;
    return (
      <div
        className="jp-prime-Compaction"
        data-status={item.status}
        data-kernel={item.kernelState.status}
      >
        <button
          type="button"
          className="jp-prime-Compaction-line"
          aria-expanded={open}
          aria-controls={bodyId}
          onClick={() => setOpen(!open)}
        >
          <compactIcon.react tag="span" />
          <span className="jp-prime-Compaction-text">{line}</span>
          <Caret.react tag="span" className="jp-prime-Caret" />
        </button>
        {open && (
          <div className="jp-prime-Compaction-body" id={bodyId}>
            <CompactionFacts item={item} />
            {item.summary && <Summary text={item.summary} />}
          </div>
        )}
      </div>
    );
  }
);

function CompactionFacts(props: { item: ICompactionItem }): JSX.Element {
  const { item } = props;
  const { trans } = usePanel();
  const names = Object.entries(item.kernelState.names ?? {})
    .filter(([, count]) => count > 0)
    .map(([status, count]) => `${count} ${statusName(status, trans)}`);
  return (
    <dl className="jp-prime-Facts">
      <dt>{trans.__('Tokens')}</dt>
      <dd>
        {fullCount(item.tokensBefore)} → {fullCount(item.tokensAfter ?? 0)}
      </dd>
      {item.waitMs !== null && (
        <>
          <dt>{trans.__('Waited')}</dt>
          <dd>{duration(item.waitMs, trans)}</dd>
        </>
      )}
      {names.length > 0 && (
        <>
          <dt>{trans.__('Variables')}</dt>
          <dd>{names.join(', ')}</dd>
        </>
      )}
    </dl>
  );
}

function Summary(props: { text: string }): JSX.Element {
  const { trans } = usePanel();
  const { summary, hint } = React.useMemo(
    () => summaryParts(props.text, trans),
    [props.text, trans]
  );
  return (
    <>
      <h4 className="jp-prime-Compaction-heading">
        {trans.__('What the agent continues from')}
      </h4>
      <MarkdownView text={summary} />
      {hint && (
        <>
          <h4 className="jp-prime-Compaction-heading">
            {trans.__('Where it can find the details')}
          </h4>
          <MarkdownView text={hint} />
        </>
      )}
    </>
  );
}

function statusName(status: string, trans: TranslationBundle): string {
  switch (status) {
    case 'verified':
      return trans.__('verified');
    case 'unverified':
      return trans.__('saved, not yet verified');
    case 'degraded':
      return trans.__('partly saved');
    case 'skipped':
      return trans.__('not saved');
    default:
      return status;
  }
}
