import { nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';
import { createRoot } from 'react-dom/client';

import { Log, replay } from '../../model/__tests__/records';
import { DEFAULT_SETTINGS } from '../../settings/settings';
import { IPanelContext, PanelProvider } from '../context';
import { ItemView } from '../items';
import { EMPTY_STATE } from '../state';

(globalThis as any).IS_REACT_ACT_ENVIRONMENT = true;

describe('the footer of a turn', () => {
  function footer(end: object): string | null {
    const log = new Log();
    log.add('turn_end', { turn: 't1', ...end });
    const { items } = replay(log.records).snapshot();
    const context = {
      trans: nullTranslator.load('prime_ext'),
      settings: DEFAULT_SETTINGS,
      controller: { snapshot: () => EMPTY_STATE }
    } as unknown as IPanelContext;
    const host = document.createElement('div');
    const root = createRoot(host);
    React.act(() =>
      root.render(
        <PanelProvider value={context}>
          <ItemView item={items[items.length - 1]} />
        </PanelProvider>
      )
    );
    const { textContent } = host;
    React.act(() => root.unmount());
    return textContent;
  }

  it('names the duration', () => {
    expect(footer({ status: 'ok', duration_ms: 3000 })).toBe('3 s');
    expect(footer({ status: 'interrupted', duration_ms: 40 })).toBe(
      'Stopped · 40 ms'
    );
  });

  it('names no duration if the server has stopped, for it is not known', () => {
    expect(footer({ status: 'crashed' })).toBe('Cut off: the server stopped');
  });
});
