import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IConversation } from '../model/items';
import { usePanel } from './context';
import { cost, fullCount } from './format';

/** Radius and circumference of the ring, in units of its view box. */
const RADIUS = 6;
const CIRCUMFERENCE = 2 * Math.PI * RADIUS;

/** Share of the threshold from which the ring warns. */
const HIGH = 0.8;

export interface IMeterReading {
  /** Size of the context as a share of the threshold, from 0 to 1; `null` if unknown. */
  readonly share: number | null;
  readonly label: string;
  /** Details, one per line. */
  readonly details: string;
}

/** Describe the size of the context, as a share of the threshold and in words. */
export function meterReading(
  conversation: IConversation | null,
  trans: TranslationBundle
): IMeterReading {
  const tokens = conversation ? conversation.contextTokens : 0;
  const threshold = conversation?.threshold ?? 0;
  const share =
    tokens === null
      ? null
      : threshold > 0
        ? Math.min(1, tokens / threshold)
        : tokens === 0
          ? 0
          : null;
  const lines: string[] = [];
  if (tokens === null) {
    lines.push(trans.__('Context: size unknown until the next reply'));
    if (threshold > 0) {
      lines.push(trans.__('Compacted at %1 tokens', fullCount(threshold)));
    }
  } else if (threshold > 0) {
    lines.push(
      trans.__(
        'Context: %1 of %2 tokens until it is compacted',
        fullCount(tokens),
        fullCount(threshold)
      )
    );
  } else {
    lines.push(trans.__('Context: %1 tokens', fullCount(tokens)));
  }
  if (conversation?.compactionCount) {
    lines.push(
      trans._n(
        'Compacted %1 time',
        'Compacted %1 times',
        conversation.compactionCount
      )
    );
  }
  if (conversation && conversation.costUsd !== null) {
    lines.push(
      trans.__('Cost of this session: about %1', cost(conversation.costUsd))
    );
  }
  return {
    share,
    label: share === null ? '–' : `${Math.round(share * 100)}%`,
    details: lines.join('\n')
  };
}

/** The context meter: a ring and a percentage, with details in its title. */
export function ContextMeter(props: {
  conversation: IConversation | null;
}): JSX.Element {
  const { trans } = usePanel();
  const { share, label, details } = meterReading(props.conversation, trans);
  const name = trans.__('Context used');
  const text = details.replace(/\n/g, '. ');
  // The role `meter` requires a value.
  const role: React.AriaAttributes & { role: string } =
    share === null
      ? { role: 'img', 'aria-label': `${name}: ${text}` }
      : {
          role: 'meter',
          'aria-label': name,
          'aria-valuemin': 0,
          'aria-valuemax': 100,
          'aria-valuenow': Math.round(share * 100),
          'aria-valuetext': text
        };
  return (
    <span
      className="jp-prime-Meter"
      {...role}
      tabIndex={0}
      title={details}
      data-level={share === null ? 'unknown' : share >= HIGH ? 'high' : 'ok'}
    >
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <circle className="jp-prime-Meter-track" cx="8" cy="8" r={RADIUS} />
        {share !== null && (
          <circle
            className="jp-prime-Meter-value"
            cx="8"
            cy="8"
            r={RADIUS}
            strokeDasharray={`${share * CIRCUMFERENCE} ${CIRCUMFERENCE}`}
            transform="rotate(-90 8 8)"
          />
        )}
      </svg>
      <span aria-hidden="true">{label}</span>
    </span>
  );
}
