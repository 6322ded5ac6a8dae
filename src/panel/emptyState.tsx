import * as React from 'react';

import { usePanel } from './context';
import { primeIcon } from './icons';
import { IPanelState, isOffline } from './state';

/** The empty conversation, with suggestions for a first message. */
export function EmptyState(props: { state: IPanelState }): JSX.Element {
  const { state } = props;
  const { controller, commands, trans } = usePanel();
  if (state.notebook === null) {
    return (
      <div className="jp-prime-Empty">
        <primeIcon.react tag="span" className="jp-prime-Empty-icon" />
        <p>{trans.__('Open a notebook to work on it with the agent.')}</p>
        <button
          type="button"
          className="jp-prime-Button"
          onClick={() => {
            void commands.execute('notebook:create-new');
          }}
        >
          {trans.__('New notebook')}
        </button>
      </div>
    );
  }
  const name = state.notebook.split('/').pop() ?? '';
  const suggestions = [
    trans.__('What is in this notebook?'),
    trans.__('Which variables are there?'),
    trans.__('Which data files can I load?')
  ];
  return (
    <div className="jp-prime-Empty">
      <primeIcon.react tag="span" className="jp-prime-Empty-icon" />
      <p>
        {trans.__(
          'The agent works on %1, in the notebook’s own kernel. Ask a question, or ask for a change.',
          name
        )}
      </p>
      <ul className="jp-prime-Suggestions" aria-label={trans.__('Suggestions')}>
        {suggestions.map(text => (
          <li key={text}>
            <button
              type="button"
              onClick={() => {
                controller.submit(text).catch(() => undefined);
              }}
            >
              {text}
            </button>
          </li>
        ))}
      </ul>
      <p className="jp-prime-Empty-hint">
        {trans.__('New here?')}{' '}
        <button
          type="button"
          className="jp-prime-Link"
          onClick={() => {
            controller.submit('/tour').catch(() => undefined);
          }}
        >
          {trans.__('Take the tour')}
        </button>
        {' · '}
        <button
          type="button"
          className="jp-prime-Link"
          onClick={() => controller.showSheet('help')}
        >
          {trans.__('Commands and keys')}
        </button>
      </p>
      {isOffline(state) && (
        <p className="jp-prime-Empty-hint">
          {trans.__(
            'This is the offline agent: it follows fixed rules, without a language model, and sends nothing anywhere.'
          )}{' '}
          <button
            type="button"
            className="jp-prime-Link"
            onClick={() => controller.showSheet('model')}
          >
            {trans.__('Connect a model…')}
          </button>
        </p>
      )}
    </div>
  );
}
