import { closeIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { usePanel } from './context';
import { failedIcon } from './icons';

/** An error message with a hint and actions. */
export function Failure(props: {
  message: string;
  hint: string;
  onDismiss?: () => void;
  children?: React.ReactNode;
}): JSX.Element {
  const { trans } = usePanel();
  return (
    <div className="jp-prime-Failure">
      <failedIcon.react tag="span" className="jp-prime-Failure-icon" />
      <div className="jp-prime-Failure-text">
        <div className="jp-prime-Failure-message">{props.message}</div>
        {props.hint && (
          <div className="jp-prime-Failure-hint">{props.hint}</div>
        )}
        {React.Children.count(props.children) > 0 && (
          <div className="jp-prime-Failure-actions">{props.children}</div>
        )}
      </div>
      {props.onDismiss && (
        <button
          type="button"
          className="jp-prime-IconButton"
          title={trans.__('Dismiss')}
          aria-label={trans.__('Dismiss')}
          onClick={props.onDismiss}
        >
          <closeIcon.react tag="span" />
        </button>
      )}
    </div>
  );
}
