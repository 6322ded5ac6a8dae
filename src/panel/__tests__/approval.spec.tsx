import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import * as React from 'react';
import { createRoot } from 'react-dom/client';

import { IApprovalState } from '../../model/items';
import { ApprovalButtons } from '../approval';
import { IPanelContext, PanelProvider } from '../context';
import { EMPTY_STATE } from '../state';

(globalThis as any).IS_REACT_ACT_ENVIRONMENT = true;

const REQUEST: IApprovalState = {
  callId: 'c1',
  what: 'tool',
  summary: 'Run code?',
  detail: null,
  decision: null,
  scope: 'once',
  user: null
};

describe('ApprovalButtons', () => {
  // A key pressed in a field must not decide: “a” may choose “Auto” in a selection.
  it.each([
    ['button', true],
    ['textarea', false],
    ['select', false],
    ['input', false]
  ])('take the focus from a %s: %s', (tag, takes) => {
    const host = document.body.appendChild(document.createElement('div'));
    host.className = 'jp-prime-Panel';
    const focused = host.appendChild(document.createElement(tag));
    const root = createRoot(host.appendChild(document.createElement('div')));
    const context = {
      trans: nullTranslator.load('prime_ext'),
      controller: { snapshot: () => EMPTY_STATE, changed: new Signal({}) }
    } as unknown as IPanelContext;
    focused.focus();
    React.act(() =>
      root.render(
        <PanelProvider value={context}>
          <ApprovalButtons approval={REQUEST} question={REQUEST.summary} />
        </PanelProvider>
      )
    );
    const group = host.querySelector('[role=group]');
    expect(document.activeElement).toBe(takes ? group : focused);
    React.act(() => root.unmount());
    host.remove();
  });
});
