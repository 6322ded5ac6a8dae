import { showDialog } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';
import { createRoot, Root } from 'react-dom/client';

import { Conversation } from '../../model/conversation';
import { Log, recordFrame } from '../../model/__tests__/records';
import { IPanelContext, PanelProvider } from '../context';
import { Header } from '../header';
import { popUp } from '../menus';
import { EMPTY_STATE, IPanelState } from '../state';

jest.mock('../menus');
jest.mock('@jupyterlab/apputils', () => ({
  ...jest.requireActual('@jupyterlab/apputils'),
  showDialog: jest.fn(async () => ({ button: { accept: true } }))
}));

(globalThis as any).IS_REACT_ACT_ENVIRONMENT = true;

describe('Header', () => {
  const menus = popUp as jest.Mock;
  let controller: { notebook: string; sessions: Record<string, jest.Mock> };
  let host: HTMLElement;
  let root: Root;

  const title = 'Penguins';

  function show(changes: Partial<IPanelState>): void {
    const context = {
      controller,
      commands: new CommandRegistry(),
      trans: nullTranslator.load('prime_ext')
    } as unknown as IPanelContext;
    React.act(() =>
      root.render(
        <PanelProvider value={context}>
          <Header state={{ ...EMPTY_STATE, ...changes }} />
        </PanelProvider>
      )
    );
  }

  function click(label: string): void {
    host.querySelector<HTMLElement>(`[aria-label^="${label}"]`)!.click();
  }

  function choose(label: string): void {
    const [, entries] = menus.mock.calls[0];
    entries.find((entry: any) => entry?.label === label).run();
  }

  beforeEach(() => {
    menus.mockClear();
    controller = {
      notebook: 'a.ipynb',
      sessions: {
        list: jest.fn(async () => [{ id: 's1', title }]),
        withoutNotebook: jest.fn(async () => []),
        delete: jest.fn(async () => undefined)
      }
    };
    host = document.body.appendChild(document.createElement('div'));
    root = createRoot(host);
    show({ notebook: 'a.ipynb', sessionId: 's1' });
  });

  afterEach(() => {
    React.act(() => root.unmount());
    host.remove();
  });

  it('lists the sessions of the notebook that is shown', async () => {
    click('Session');
    await React.act(async () => undefined);
    expect(menus).toHaveBeenCalledTimes(1);
    const [first] = menus.mock.calls[0][1];
    expect([first.label, first.isToggled]).toEqual([title, true]);
  });

  it.each([
    ['First line\nand more', 'First line'],
    // As a pasted image.
    ['', 'chart.png']
  ])(
    'names a session without title after its first message (%j)',
    (text, name) => {
      const conversation = new Conversation(() => 0);
      const attachments = [
        { type: 'image', value: 'chart.png', mimetype: 'image/png' }
      ];
      conversation.apply(
        recordFrame(new Log().add('user_message', { text, attachments }))
      );
      show({
        notebook: 'a.ipynb',
        sessionId: 's1',
        conversation: conversation.snapshot()
      });
      expect(host.querySelector('.jp-prime-Header-title')?.textContent).toBe(
        name
      );
    }
  );

  it('does not offer the sessions of another notebook', async () => {
    click('Session');
    controller.notebook = 'b.ipynb';
    await React.act(async () => undefined);
    expect(menus).not.toHaveBeenCalled();
  });

  it('deletes the session that the question was about', async () => {
    click('More');
    choose('Delete session…');
    // Meanwhile, another page has deleted it, so that the panel shows the next one.
    show({ notebook: 'a.ipynb', sessionId: 's2' });
    expect(showDialog).toHaveBeenCalledTimes(1);
    await React.act(async () => undefined);
    expect(controller.sessions.delete.mock.calls).toEqual([['s1']]);
  });
});
