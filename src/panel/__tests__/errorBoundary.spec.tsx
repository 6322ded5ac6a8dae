import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import * as React from 'react';
import { createRoot, Root } from 'react-dom/client';

import { Item } from '../../model/items';
import { IPanelContext, PanelProvider } from '../context';
import { MessageList } from '../messageList';
import { Panel } from '../panel';
import { EMPTY_STATE } from '../state';

(globalThis as any).IS_REACT_ACT_ENVIRONMENT = true;
(globalThis as any).ResizeObserver = class {
  observe(): void {}
  disconnect(): void {}
};

const trans = nullTranslator.load('prime_ext');
const user = (key: string, text: unknown): Item =>
  ({ kind: 'user', key, ts: '', user: null, text, attachments: [] }) as any;

describe('what cannot be rendered', () => {
  let host: HTMLElement;
  let root: Root;
  let log: jest.SpyInstance;

  beforeEach(() => {
    log = jest.spyOn(console, 'error').mockReturnValue();
    host = document.body.appendChild(document.createElement('div'));
    root = createRoot(host);
  });

  afterEach(() => {
    React.act(() => root.unmount());
    host.remove();
    log.mockRestore();
  });

  it('in one item leaves the others, and is shown once it can be', () => {
    const show = (...items: Item[]): void =>
      React.act(() =>
        root.render(
          <PanelProvider
            value={{ trans, userName: null } as unknown as IPanelContext}
          >
            <MessageList items={items} resetKey="" />
          </PanelProvider>
        )
      );
    // An object is no valid child.
    show(user('1', 'before'), user('2', { odd: 1 }), user('3', 'after'));
    expect(host.textContent).toContain('before');
    expect(host.textContent).toContain('after');
    expect(host.querySelector('.jp-prime-Failure')!.textContent).toContain(
      'This part of the conversation cannot be shown: user'
    );
    expect(log).toHaveBeenCalledWith(
      'Prime: an item of the kind “user” cannot be shown.',
      expect.any(Error)
    );
    show(user('1', 'before'), user('2', 'mended'));
    expect(host.textContent).toContain('mended');
    expect(host.querySelector('.jp-prime-Failure')).toBeNull();
  });

  it('in the panel is tried again on request', () => {
    // The header needs more of the controller than there is.
    const context = {
      trans,
      controller: { changed: new Signal({}), snapshot: () => EMPTY_STATE }
    };
    React.act(() =>
      root.render(
        <PanelProvider value={context as unknown as IPanelContext}>
          <Panel />
        </PanelProvider>
      )
    );
    expect(host.querySelector('[role=alert]')!.textContent).toContain(
      'The panel cannot be shown.'
    );
    const logged = [
      'Prime: the panel cannot be shown.',
      expect.any(Error)
    ] as const;
    expect(log).toHaveBeenCalledWith(...logged);
    log.mockClear();
    React.act(() => host.querySelector('button')!.click());
    expect(log).toHaveBeenCalledWith(...logged);
  });
});
