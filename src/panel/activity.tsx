import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IActivity, Item } from '../model/items';
import { usePanel } from './context';
import { Elapsed, useNow } from './elapsed';

/** A line about the agent's current activity; nothing while the agent is idle. */
export function ActivityLine(props: {
  activity: IActivity;
  /** The last item of the conversation. */
  last: Item | undefined;
  stopping: boolean;
  sending: boolean;
  /** Whether variables are being restored outside of a turn. */
  restoring: boolean;
}): JSX.Element | null {
  const { activity } = props;
  const { trans } = usePanel();
  if (!activity.running && !props.sending) {
    return props.restoring ? (
      <div className="jp-prime-Activity">
        <span className="jp-prime-Spinner" />
        <span>{trans.__('Restoring variables…')}</span>
      </div>
    ) : null;
  }
  if (activity.retry && !props.stopping) {
    return <RetryLine activity={activity} />;
  }
  if (activity.phase === 'approval' && !props.stopping) {
    return null;
  }
  return (
    <div className="jp-prime-Activity">
      <span className="jp-prime-Spinner" />
      <span>
        {props.stopping
          ? trans.__('Stopping…')
          : props.sending && !activity.running
            ? trans.__('Sending…')
            : (activity.message ?? activityText(activity, props.last, trans))}
      </span>
      {activity.running && <Elapsed since={activity.since} />}
    </div>
  );
}

function RetryLine(props: { activity: IActivity }): JSX.Element {
  const { trans } = usePanel();
  const retry = props.activity.retry!;
  const seconds = Math.max(0, Math.ceil((retry.at - useNow()) / 1000));
  const reason = retry.reason || trans.__('No answer');
  return (
    <div className="jp-prime-Activity" data-retry>
      <span className="jp-prime-Spinner" />
      <span>
        {seconds > 0
          ? trans.__('%1; next attempt in %2 s', capital(reason), seconds)
          : trans.__('%1; trying again', capital(reason))}
        {retry.maxAttempts > 0 &&
          ' ' + trans.__('(%1 of %2)', retry.attempt + 1, retry.maxAttempts)}
      </span>
    </div>
  );
}

/**
 * Return what the agent does at the moment.
 *
 * @param last - The last item of the conversation.
 */
export function activityText(
  activity: IActivity,
  last: Item | undefined,
  trans: TranslationBundle
): string {
  return isWriting(last)
    ? trans.__('Writing…')
    : phaseText(activity.phase, trans);
}

export function phaseText(phase: string, trans: TranslationBundle): string {
  switch (phase) {
    case 'tool':
      return trans.__('Working…');
    case 'approval':
      return trans.__('Needs your decision');
    case 'compaction':
      return trans.__('Reducing the context…');
    case 'retry':
      return trans.__('Trying again…');
    case 'wait':
      return trans.__('Waiting for the notebook…');
    default:
      return trans.__('Thinking…');
  }
}

function capital(text: string): string {
  return text.charAt(0).toLocaleUpperCase() + text.slice(1);
}

function isWriting(item: Item | undefined): boolean {
  return (
    (item?.kind === 'text' && item.streaming) ||
    (item?.kind === 'tool' && item.status === 'writing')
  );
}
