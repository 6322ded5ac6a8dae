import { closeIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { usePanel } from './context';

/** A page that replaces the conversation until it is closed. */
export function Sheet(props: {
  title: string;
  onClose: () => void;
  children: React.ReactNode;
}): JSX.Element {
  const { trans } = usePanel();
  const node = React.useRef<HTMLElement>(null);
  React.useEffect(() => {
    const first =
      node.current?.querySelector<HTMLElement>('input') ??
      node.current?.querySelector<HTMLElement>('button');
    first?.focus();
  }, []);
  return (
    <section
      className="jp-prime-Sheet"
      ref={node}
      aria-label={props.title}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          props.onClose();
        }
      }}
    >
      <div className="jp-prime-Sheet-header">
        <h2>{props.title}</h2>
        <button
          type="button"
          className="jp-prime-IconButton"
          title={trans.__('Close')}
          aria-label={trans.__('Close')}
          onClick={props.onClose}
        >
          <closeIcon.react tag="span" />
        </button>
      </div>
      {props.children}
    </section>
  );
}
