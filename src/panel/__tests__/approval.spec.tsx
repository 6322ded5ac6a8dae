import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import * as React from 'react';
import { createRoot, Root } from 'react-dom/client';

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
  let controller: Record<string, any>;
  let host: HTMLElement;
  let root: Root;

  function show(): void {
    const context = {
      trans: nullTranslator.load('prime_ext'),
      controller
    } as unknown as IPanelContext;
    React.act(() =>
      root.render(
        <PanelProvider value={context}>
          <ApprovalButtons approval={REQUEST} question={REQUEST.summary} />
        </PanelProvider>
      )
    );
  }

  beforeEach(() => {
    controller = {
      snapshot: () => EMPTY_STATE,
      changed: new Signal({}),
      decide: jest.fn(async () => undefined),
      requestFocus: jest.fn()
    };
    host = document.body.appendChild(document.createElement('div'));
    host.className = 'jp-prime-Panel';
    root = createRoot(host.appendChild(document.createElement('div')));
  });

  afterEach(() => {
    React.act(() => root.unmount());
    host.remove();
  });

  // A key pressed in a field must not decide: “a” may choose “Auto” in a selection.
  it.each([
    ['button', true],
    ['textarea', false],
    ['select', false],
    ['input', false]
  ])('take the focus from a %s: %s', (tag, takes) => {
    const focused = host.appendChild(document.createElement(tag));
    focused.focus();
    show();
    const group = host.querySelector('[role=group]');
    expect(document.activeElement).toBe(takes ? group : focused);
  });

  it('leave the focus to the composer, unless it has left the panel', async () => {
    show();
    const allow = host.querySelector('button')!;
    allow.focus();
    await React.act(async () => allow.click());
    expect(controller.decide).toHaveBeenCalledWith('c1', 'allow', 'once');
    expect(controller.requestFocus).toHaveBeenCalledTimes(1);

    const cell = document.body.appendChild(document.createElement('textarea'));
    await React.act(async () => {
      allow.click();
      cell.focus();
    });
    expect(controller.requestFocus).toHaveBeenCalledTimes(1);
    cell.remove();
  });
});
