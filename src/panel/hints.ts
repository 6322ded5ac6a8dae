import { TranslationBundle } from '@jupyterlab/translation';

import { IPanelState, isBusy } from './state';

export interface IHint {
  readonly id: string;
  readonly text: string;
}

/** Return the first unseen hint that fits the current state; `null` if there is none. */
export function hintFor(
  state: IPanelState,
  seen: ReadonlySet<string>,
  trans: TranslationBundle
): IHint | null {
  const { conversation } = state;
  const items = conversation?.items ?? [];
  const share =
    conversation?.contextTokens && conversation.threshold
      ? conversation.contextTokens / conversation.threshold
      : 0;
  const hints: (IHint & { fits: boolean })[] = [
    {
      id: 'queue',
      text: trans.__(
        'You can send messages while the agent works; they are queued. Esc stops the agent.'
      ),
      fits: isBusy(state)
    },
    {
      id: 'compaction',
      text: trans.__(
        'The ring below shows how full the context is. At 100% it is compacted; your variables stay.'
      ),
      fits: share >= 0.5
    },
    {
      id: 'cards',
      text: trans.__('Click a tool call to see its input and its result.'),
      fits: items.some(({ kind }) => kind === 'tool')
    },
    {
      id: 'slash',
      text: trans.__(
        'Type @ to mention cells, variables and files, and / for commands. Up brings back earlier messages.'
      ),
      fits: items.some(
        ({ kind }, index) => kind === 'turn' && index < items.length - 1
      )
    }
  ];
  return hints.find(({ id, fits }) => fits && !seen.has(id)) ?? null;
}
