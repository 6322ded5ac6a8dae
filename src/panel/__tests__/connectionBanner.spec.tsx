import { nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';
import { createRoot } from 'react-dom/client';

import { IPanelContext, PanelProvider } from '../context';
import { ConnectionBanner } from '../panel';
import { EMPTY_STATE, IPanelState } from '../state';

(globalThis as any).IS_REACT_ACT_ENVIRONMENT = true;

it('A lost connection is announced, unless it is back soon', () => {
  jest.useFakeTimers();
  const host = document.body.appendChild(document.createElement('div'));
  const root = createRoot(host);
  const context = {
    trans: nullTranslator.load('prime_ext')
  } as unknown as IPanelContext;
  const show = (
    connection: IPanelState['connection'],
    refusal: IPanelState['refusal'] = null
  ): void =>
    React.act(() =>
      root.render(
        <PanelProvider value={context}>
          <ConnectionBanner state={{ ...EMPTY_STATE, connection, refusal }} />
        </PanelProvider>
      )
    );

  show('connected');
  const region = host.querySelector('[role=status]')!;
  expect(region.textContent).toBe('');
  show('disconnected');
  show('connected');
  React.act(() => jest.advanceTimersByTime(10_000));
  expect(region.textContent).toBe('');
  show('disconnected');
  React.act(() => jest.advanceTimersByTime(10_000));
  expect(region.textContent).toMatch(/^Disconnected from the server\./);
  show('disconnected', {
    code: 'session_locked',
    message: 'Session s is open in another server.',
    hint: 'Shut it down.'
  });
  expect(region.textContent).toMatch(
    /^Session s is open in another server. Shut it down\./
  );
  show('connected');
  expect(region.textContent).toBe('');

  React.act(() => root.unmount());
  host.remove();
  jest.useRealTimers();
});
