import { nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';
import { createRoot, Root } from 'react-dom/client';

import { IQueuedMessage } from '../../model/items';
import { IPanelContext, PanelProvider } from '../context';
import { QueueList } from '../queue';
import { IWaitingMessage } from '../state';

(globalThis as any).IS_REACT_ACT_ENVIRONMENT = true;

describe('QueueList', () => {
  const QUEUE: IQueuedMessage[] = [
    { seq: 7, text: 'and then?', user: null, attachments: [] },
    {
      seq: 8,
      text: '',
      user: null,
      attachments: [
        { type: 'image', value: 'chart.png', mimetype: 'image/png' }
      ]
    }
  ];
  const controller = { sendQueued: jest.fn(async () => undefined) };
  let host: HTMLElement;
  let root: Root;

  function show(held: boolean, waiting: IWaitingMessage[] = []): void {
    const context = {
      controller,
      trans: nullTranslator.load('prime_ext')
    } as unknown as IPanelContext;
    React.act(() =>
      root.render(
        <PanelProvider value={context}>
          <QueueList queue={QUEUE} waiting={waiting} held={held} />
        </PanelProvider>
      )
    );
  }

  function button(name: string): HTMLElement | undefined {
    return [...host.querySelectorAll('button')].find(
      node => (node.getAttribute('aria-label') ?? node.textContent) === name
    );
  }

  beforeEach(() => {
    host = document.body.appendChild(document.createElement('div'));
    root = createRoot(host);
  });

  afterEach(() => {
    React.act(() => root.unmount());
    host.remove();
  });

  it('shows a message that waits for the one before it, without buttons', () => {
    show(false, [{ text: 'a third', attachments: [] }]);
    const last = host.querySelector('li:last-child')!;
    expect(last.textContent).toBe('Queueda third');
    expect(last.querySelector('button')).toBeNull();
  });

  it('sends what is held back, but not what the agent comes to by itself', () => {
    show(false);
    expect(button('Send now')).toBeUndefined();
    show(true);
    button('Send now')!.click();
    expect(controller.sendQueued).toHaveBeenCalledTimes(1);
  });

  it('names a message without text by what is attached to it', () => {
    show(true);
    const rows = [...host.querySelectorAll('li')].map(row => row.textContent);
    expect(rows).toEqual(['Queuedand then?', 'Queuedchart.png']);
    expect(button('Remove queued message: chart.png')).toBeDefined();
  });
});
