import {
  caretDownIcon,
  caretRightIcon,
  refreshIcon
} from '@jupyterlab/ui-components';
import * as React from 'react';

import { IBehindState, IMissingName, IRestoreItem } from '../model/items';
import { CodeView } from './codeView';
import { usePanel } from './context';
import { restoreLine } from './restoreText';

/** Names shown before the rest is asked for. */
const SHOWN = 8;

/** What became of the kernel's variables: what is missing, why, and how it was made. */
export function RestoreCard(props: { item: IRestoreItem }): JSX.Element {
  const { item } = props;
  const { trans } = usePanel();
  const [all, setAll] = React.useState(false);
  const missing = all ? item.missing : item.missing.slice(0, SHOWN);
  const more = item.missing.length - missing.length;
  return (
    <div className="jp-prime-Restore" data-outcome={item.outcome}>
      <refreshIcon.react tag="span" />
      <div className="jp-prime-Restore-body">
        <div>{restoreLine(item, trans)}</div>
        {item.reason && (
          <div className="jp-prime-Restore-detail">{item.reason}</div>
        )}
        {item.behind && <RanAfterwards behind={item.behind} />}
        {missing.length > 0 && (
          <ul className="jp-prime-Restore-names">
            {missing.map(entry => (
              <MissingName key={entry.name} entry={entry} />
            ))}
          </ul>
        )}
        {more > 0 && (
          <button
            type="button"
            className="jp-prime-Link"
            onClick={() => setAll(true)}
          >
            {trans._n('Show %1 more', 'Show %1 more', more)}
          </button>
        )}
        {item.snapshotId !== null && (
          <RestoreButton snapshotId={item.snapshotId} />
        )}
      </div>
    </div>
  );
}

/** The code that the snapshot is older than. */
function RanAfterwards(props: { behind: IBehindState }): JSX.Element {
  const { code, cutOff } = props.behind;
  const { trans } = usePanel();
  return (
    <ul className="jp-prime-Restore-names">
      {code.map((line, index) => (
        <li key={index} className="jp-prime-Restore-detail">
          <code>{line}</code>
          {cutOff &&
            index === code.length - 1 &&
            ` ${trans.__('(ran when the kernel ended)')}`}
        </li>
      ))}
    </ul>
  );
}

function MissingName(props: { entry: IMissingName }): JSX.Element {
  const { name, reason, placeholder, source } = props.entry;
  const { trans } = usePanel();
  const [open, setOpen] = React.useState(false);
  const codeId = React.useId();
  const Caret = open ? caretDownIcon : caretRightIcon;
  return (
    <li className="jp-prime-Restore-detail">
      <code>{name}</code>{' '}
      {placeholder ? trans.__('is a placeholder') : trans.__('is missing')}
      {reason && `: ${reason}`}
      {source !== null && (
        <>
          {' '}
          <button
            type="button"
            className="jp-prime-Link"
            aria-expanded={open}
            aria-controls={codeId}
            aria-label={trans.__('Show how %1 was made', name)}
            onClick={() => setOpen(!open)}
          >
            <Caret.react tag="span" className="jp-prime-Caret" />
            {trans.__('Show how it was made')}
          </button>
          <div id={codeId} hidden={!open}>
            {open && <CodeView code={source} />}
          </div>
        </>
      )}
    </li>
  );
}

function RestoreButton(props: { snapshotId: string }): JSX.Element {
  const { controller, trans } = usePanel();
  const [running, setRunning] = React.useState(false);
  return (
    <button
      type="button"
      className="jp-prime-Button"
      disabled={running}
      onClick={() => {
        setRunning(true);
        void controller.variables
          .restore(props.snapshotId)
          .finally(() => setRunning(false));
      }}
    >
      {running ? trans.__('Restoring…') : trans.__('Restore variables')}
    </button>
  );
}
