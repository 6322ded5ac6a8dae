import { Widget } from '@lumino/widgets';
import * as React from 'react';

/**
 * Attach a Lumino widget to a React element for as long as the component is mounted.
 *
 * @param create - Creates the widget; called again when `dependencies` change.
 * @returns the ref for the element, and a ref to the widget.
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
