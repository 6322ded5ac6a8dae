import { Widget } from '@lumino/widgets';
import * as React from 'react';

/**
 * Show a Lumino widget inside a React element for as long as that is mounted.
 *
 * @param create - Makes the widget; called again when `dependencies` change.
 * @returns the ref for the element, and the widget once it is there.
 */
export function useWidget<T extends Widget>(
  create: () => T,
  dependencies: React.DependencyList
): [React.RefObject<HTMLDivElement>, React.MutableRefObject<T | null>] {
  const host = React.useRef<HTMLDivElement>(null);
  const widget = React.useRef<T | null>(null);
  React.useLayoutEffect(() => {
    const created = create();
    widget.current = created;
    if (host.current?.isConnected) {
      Widget.attach(created, host.current);
    }
    return () => {
      widget.current = null;
      created.dispose();
    };
  }, dependencies);
  return [host, widget];
}
