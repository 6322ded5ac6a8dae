import { closeIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { usePanel } from './context';
import { hintFor } from './hints';
import { IPanelState } from './state';

const STORAGE_KEY = 'prime_ext:hints-seen';

/** A hint. Hints are shown one at a time, each until it is dismissed once in this browser. */
export function HintBar(props: { state: IPanelState }): JSX.Element | null {
  const { trans, settings } = usePanel();
  const [seen, setSeen] = React.useState(loadSeen);
  const hint = settings.showHints ? hintFor(props.state, seen, trans) : null;
  if (hint === null) {
    return null;
  }
  return (
    <div className="jp-prime-Hint">
      <span>{hint.text}</span>
      <button
        type="button"
        className="jp-prime-IconButton"
        title={trans.__('Got it')}
        aria-label={trans.__('Dismiss this hint')}
        onClick={() => {
          const next = new Set([...seen, hint.id]);
          saveSeen(next);
          setSeen(next);
        }}
      >
        <closeIcon.react tag="span" />
      </button>
    </div>
  );
}

function loadSeen(): ReadonlySet<string> {
  try {
    return new Set(JSON.parse(localStorage.getItem(STORAGE_KEY) ?? '[]'));
  } catch {
    return new Set();
  }
}

function saveSeen(seen: ReadonlySet<string>): void {
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify([...seen]));
  } catch {
    // Without storage the hint is shown again after a reload.
  }
}
