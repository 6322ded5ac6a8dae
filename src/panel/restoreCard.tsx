import {
  caretDownIcon,
  caretRightIcon,
  refreshIcon
} from '@jupyterlab/ui-components';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IBehindState, IMissingName, IRestoreItem } from '../model/items';
import { CodeView } from './codeView';
import { usePanel } from './context';
import { Elapsed, useNow } from './elapsed';
import { missingReason, restoreLine } from './restoreText';

/** Number of names that are shown before the user asks for the rest. */
const SHOWN = 8;

/** Time in milliseconds after which a load that has not stopped counts as ignoring interrupts. */
const DEAF_MS = 5000;

/** The outcome of a restore: the missing variables, why they are missing, and their code. */
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

/** The code that ran after the snapshot was made. */
function RanAfterwards(props: { behind: IBehindState }): JSX.Element {
  const { code, cutOff } = props.behind;
  const { trans } = usePanel();
  return (
    <ul className="jp-prime-Restore-names">
      {code.map((line, index) => (
        <li
          key={index}
          className="jp-prime-Restore-detail jp-prime-Restore-run"
        >
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
  const { name, placeholder, source, loadableFrom } = props.entry;
  const { trans } = usePanel();
  const reason = missingReason(props.entry, trans);
  const [open, setOpen] = React.useState(false);
  const codeId = React.useId();
  const Caret = open ? caretDownIcon : caretRightIcon;
  return (
    <li className="jp-prime-Restore-detail" tabIndex={-1}>
      <code>{name}</code>{' '}
      {placeholder ? trans.__('is a placeholder') : trans.__('is missing')}
      {reason && `: ${reason}`}
      {loadableFrom !== null && (
        <LoadAnyway entry={props.entry} snapshotId={loadableFrom} />
      )}
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

/** Loads a skipped variable, or cancels that; a single button, so that it keeps the focus. */
function LoadAnyway(props: {
  entry: IMissingName;
  snapshotId: string;
}): JSX.Element {
  const { entry, snapshotId } = props;
  const { controller, trans } = usePanel();
  const { variables } = controller;
  const [since, setSince] = React.useState<number | null>(null);
  const [stoppedAt, setStoppedAt] = React.useState<number | null>(null);
  const button = React.useRef<HTMLButtonElement>(null);

  // The button disappears when loading ends; keep the keyboard focus on its list item.
  React.useLayoutEffect(() => {
    const node = button.current;
    return () => {
      if (node !== null && node === document.activeElement) {
        node.closest('li')?.focus();
      }
    };
  }, []);

  const load = async (): Promise<void> => {
    if (entry.leftOut === 'ended' && !(await isRiskTaken(entry.name, trans))) {
      return;
    }
    setSince(Date.now());
    setStoppedAt(null);
    await variables.load(entry.name, snapshotId);
    setSince(null);
  };

  const stop = async (): Promise<void> => {
    setStoppedAt(Date.now());
    await variables.giveUp(snapshotId);
  };

  const running = since !== null;
  const stopping = stoppedAt !== null;
  return (
    <>
      {' '}
      <span role="status">
        {running && (
          <span className="jp-prime-Restore-loading">
            <span className="jp-prime-Spinner" />
            {stopping ? (
              <Stopping since={stoppedAt} />
            ) : (
              trans.__('Loading %1…', entry.name)
            )}
            <Elapsed since={since} />
          </span>
        )}
      </span>{' '}
      <button
        ref={button}
        type="button"
        className="jp-prime-Button"
        aria-disabled={stopping}
        aria-label={
          running
            ? trans.__('Stop loading %1', entry.name)
            : trans.__('Load %1 anyway', entry.name)
        }
        onClick={() => {
          if (!running) {
            void load();
          } else if (!stopping) {
            void stop();
          }
        }}
      >
        {running ? trans.__('Stop') : trans.__('Load it anyway')}
      </button>
    </>
  );
}

/** Progress of stopping; if the load ignores the interrupt, advice to restart the kernel. */
function Stopping(props: { since: number }): JSX.Element {
  const { trans } = usePanel();
  return (
    <span>
      {useNow() - props.since < DEAF_MS
        ? trans.__('Stopping…')
        : trans.__('Loading cannot be stopped. Restart the kernel to end it.')}
    </span>
  );
}

/** Ask the user to confirm a load that may end the kernel. */
async function isRiskTaken(
  name: string,
  trans: TranslationBundle
): Promise<boolean> {
  const result = await showDialog({
    title: trans.__('Load %1 anyway?', name),
    body: trans.__(
      'Reading it back ended that process, so loading it may end the kernel. The other variables would then be restored from the last snapshot.'
    ),
    buttons: [
      Dialog.cancelButton(),
      Dialog.warnButton({ label: trans.__('Load it anyway') })
    ],
    defaultButton: 0
  });
  return result.button.accept;
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
