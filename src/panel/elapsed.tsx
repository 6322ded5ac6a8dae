import * as React from 'react';

import { usePanel } from './context';
import { duration } from './format';

/** A running count of the time since `since`; nothing in the first second, to avoid a flicker. */
export function Elapsed(props: {
  /** Milliseconds since the epoch. */
  since: number;
  className?: string;
}): JSX.Element | null {
  const { trans } = usePanel();
  const now = useNow();
  const ms = now - props.since;
  return ms < 1000 ? null : (
    <span className={props.className} aria-hidden="true">
      {duration(Math.floor(ms / 1000) * 1000, trans)}
    </span>
  );
}

/** Return the time in milliseconds since the epoch, updated every second. */
export function useNow(): number {
  const [now, setNow] = React.useState(() => Date.now());
  React.useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), 1000);
    return () => window.clearInterval(timer);
  }, []);
  return now;
}
