import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { INotebookInUse } from '../api/rest';
import { usePanel } from './context';
import { IPanelState } from './state';

/** A banner shown while an agent in another process is working on the current notebook. */
export function ElsewhereBanner(props: { state: IPanelState }): JSX.Element {
  const { notebook, conversation } = props.state;
  const { active, trans } = usePanel();
  const waits = conversation?.activity.phase === 'wait';
  // Other processes are polled at long intervals, so refresh when the information matters.
  React.useEffect(() => active.refresh(), [active, notebook, waits]);
  const subscribe = React.useCallback(
    (listener: () => void) => {
      active.changed.connect(listener);
      return () => {
        active.changed.disconnect(listener);
      };
    },
    [active]
  );
  const elsewhere = React.useSyncExternalStore(
    subscribe,
    () => active.elsewhere
  );
  const found = elsewhere.find(one => one.notebook === notebook);
  // Screen readers announce only changes inside a live region that exists already.
  return (
    <div role="status">
      {found && (
        <div className="jp-prime-Banner">
          <span>{elsewhereText(found, trans)}</span>
        </div>
      )}
    </div>
  );
}

export function elsewhereText(
  { url, pid, host, since }: INotebookInUse,
  trans: TranslationBundle
): string {
  const who =
    url === null
      ? trans.__('“jupyter prime run”')
      : trans.__('The agent of the Jupyter server at %1', url);
  const process =
    host === null
      ? trans.__('process %1', pid)
      : trans.__('process %1 on %2', pid, host);
  return trans.__(
    '%1 has been working on this notebook since %2 (%3). The agent here starts when it is done.',
    who,
    new Date(since).toLocaleString([], {
      dateStyle: 'medium',
      timeStyle: 'short'
    }),
    process
  );
}
