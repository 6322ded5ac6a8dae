import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import * as React from 'react';
import { createRoot, Root } from 'react-dom/client';

import { IAttachment } from '../../api/attachments';
import { IStatus } from '../../api/rest';
import { ICandidate } from '../../mentions/candidates';
import { IMentionSources } from '../../mentions/sources';
import { Conversation } from '../../model/conversation';
import { Log, recordFrame } from '../../model/__tests__/records';
import { DEFAULT_SETTINGS, IPanelSettings } from '../../settings/settings';
import { Composer } from '../composer';
import { IPanelContext, PanelProvider, usePanelState } from '../context';
import { EMPTY_STATE, IPanelState } from '../state';

(globalThis as any).IS_REACT_ACT_ENVIRONMENT = true;
(globalThis as any).ResizeObserver = class {
  observe(): void {
    /* Nothing is laid out here. */
  }
  disconnect(): void {
    /* Nothing is laid out here. */
  }
};

/** A fake controller that records its calls. */
class FakeController {
  state: IPanelState = { ...EMPTY_STATE, notebook: 'a.ipynb' };
  changed = new Signal<this, void>(this);
  focusRequested = new Signal<this, void>(this);
  message = {
    attach: jest.fn((...attachments: IAttachment[]) =>
      this.set({ attachments: [...this.state.attachments, ...attachments] })
    ),
    detach: jest.fn((attachment: IAttachment) =>
      this.set({
        attachments: this.state.attachments.filter(
          other => other !== attachment
        )
      })
    ),
    setText: (draft: string) => this.set({ draft }),
    send: jest.fn(async () => this.set({ draft: '' }))
  };
  interrupt = jest.fn(async () => undefined);

  snapshot(): IPanelState {
    return this.state;
  }

  takeFocus(): boolean {
    return false;
  }

  set(changes: Partial<IPanelState>): void {
    this.state = { ...this.state, ...changes };
    this.changed.emit();
  }
}

function variable(name: string): ICandidate {
  return {
    kind: 'variable',
    label: name,
    detail: 'DataFrame (344, 8)',
    mention: `@${name}`,
    attachment: { type: 'variable', value: name },
    words: [name]
  };
}

const MENTIONS: IMentionSources = {
  here: () => [
    {
      kind: 'cell',
      label: `Cell ${1}`,
      detail: 'penguins.plot()',
      mention: '@cell-1',
      attachment: { type: 'notebook', value: 'a.ipynb', cells: [{ id: 'c' }] },
      words: ['cell-1', '1'],
      content: 'penguins.plot()'
    }
  ],
  variables: async () => [variable('penguins'), variable('pens')],
  files: async () => [],
  fill: attachment => attachment
};

function Composing(): JSX.Element {
  return <Composer state={usePanelState()} />;
}

describe('Composer', () => {
  let controller: FakeController;
  let host: HTMLDivElement;
  let root: Root;

  function render(settings: Partial<IPanelSettings> = {}): void {
    const context = {
      controller,
      trans: nullTranslator.load('prime_ext'),
      mentions: MENTIONS,
      settings: { ...DEFAULT_SETTINGS, ...settings }
    } as unknown as IPanelContext;
    React.act(() =>
      root.render(
        <PanelProvider value={context}>
          <Composing />
        </PanelProvider>
      )
    );
  }

  function text(): HTMLTextAreaElement {
    return host.querySelector('textarea')!;
  }

  function type(value: string): void {
    React.act(() => {
      const setter = Object.getOwnPropertyDescriptor(
        HTMLTextAreaElement.prototype,
        'value'
      )!.set!;
      setter.call(text(), value);
      text().dispatchEvent(new Event('input', { bubbles: true }));
    });
  }

  /** Press a key; return whether the composer handled it. */
  function press(key: string, init: KeyboardEventInit = {}): boolean {
    const event = new KeyboardEvent('keydown', {
      key,
      bubbles: true,
      cancelable: true,
      ...init
    });
    React.act(() => {
      text().dispatchEvent(event);
    });
    return event.defaultPrevented;
  }

  beforeEach(() => {
    controller = new FakeController();
    host = document.createElement('div');
    document.body.append(host);
    root = createRoot(host);
  });

  afterEach(() => {
    React.act(() => root.unmount());
    host.remove();
  });

  it('sends with Enter, and breaks the line with Shift Enter', () => {
    render();
    type('hello');
    expect(press('Enter', { shiftKey: true })).toBe(false);
    expect(controller.message.send).not.toHaveBeenCalled();
    expect(press('Enter')).toBe(true);
    expect(controller.message.send).toHaveBeenCalledTimes(1);
  });

  it('sends only with Ctrl Enter, if set so', () => {
    render({ sendWith: 'accel-enter' });
    type('hello');
    expect(press('Enter')).toBe(false);
    press('Enter', { ctrlKey: true });
    expect(controller.message.send).toHaveBeenCalledTimes(1);
  });

  it('ignores keys while an input method composes', () => {
    render();
    type('こんに');
    expect(press('Enter', { isComposing: true })).toBe(false);
    expect(controller.message.send).not.toHaveBeenCalled();
  });

  it('does not send a blank message', () => {
    render();
    type(' \n ');
    press('Enter');
    expect(controller.message.send).not.toHaveBeenCalled();
  });

  it('sends an image without text, but not what the text no longer mentions', () => {
    render();
    const df: IAttachment = { type: 'variable', value: 'df', mention: '@df' };
    const button = (): HTMLButtonElement =>
      host.querySelector<HTMLButtonElement>('.jp-prime-Send')!;
    React.act(() => controller.message.attach(df));
    expect(button().disabled).toBe(true);
    press('Enter');
    expect(controller.message.send).not.toHaveBeenCalled();
    React.act(() =>
      controller.message.attach({
        type: 'image',
        value: 'chart.png',
        mimetype: 'image/png',
        data: ''
      })
    );
    expect(button().disabled).toBe(false);
    press('Enter');
    expect(controller.message.send).toHaveBeenCalledTimes(1);
    React.act(() => controller.set({ sending: 'a message' }));
    expect(button().getAttribute('aria-label')).toBe('Queue message');
  });

  it('recalls earlier texts, not messages without one', () => {
    const log = new Log();
    const conversation = new Conversation(() => 0);
    for (const text of ['first', '']) {
      conversation.apply(recordFrame(log.add('user_message', { text })));
    }
    controller.set({ conversation: conversation.snapshot() });
    render();
    press('ArrowUp');
    expect(text().value).toBe('first');
  });

  it('stops the agent with Escape, only while it runs', () => {
    render();
    expect(press('Escape')).toBe(false);
    React.act(() => controller.set({ sending: 'a message' }));
    expect(press('Escape')).toBe(true);
    expect(controller.interrupt).toHaveBeenCalledTimes(1);
  });

  it('shows Stop while a message is being sent, and queues the next one', () => {
    render();
    React.act(() => controller.set({ sending: 'a message' }));
    expect(host.querySelector('[aria-label="Stop"]')).not.toBeNull();
    expect(host.querySelector('[aria-label="Queue message"]')).toBeNull();
    type('more');
    expect(host.querySelector('[aria-label="Queue message"]')).not.toBeNull();
  });

  it('moves the focus to the newest approval with Shift Tab', () => {
    render();
    expect(press('Tab', { shiftKey: true })).toBe(false);
    host.className = 'jp-prime-Panel';
    for (const name of ['first', 'newest']) {
      const question = document.createElement('div');
      question.className = 'jp-prime-Approval';
      question.tabIndex = -1;
      question.id = name;
      text().closest('.jp-prime-Composer')!.before(question);
    }
    text().focus();
    expect(press('Tab', { shiftKey: true })).toBe(true);
    expect(document.activeElement?.id).toBe('newest');
    host.querySelectorAll('.jp-prime-Approval').forEach(node => node.remove());
  });

  it('completes commands by keyboard', () => {
    render();
    type('/');
    const options = (): string[] =>
      [...host.querySelectorAll('[role=option]')].map(
        option => `${option.getAttribute('aria-selected')} ${option.id}`
      );
    expect(options()).toHaveLength(4);
    press('ArrowDown');
    press('ArrowDown');
    const active = text().getAttribute('aria-activedescendant');
    expect(options()[2]).toBe(`true ${active}`);
    press('Tab');
    expect(text().value).toBe('/compact ');
    expect(options()).toHaveLength(0);
    expect(controller.message.send).not.toHaveBeenCalled();
  });

  describe('mentions', () => {
    const options = (): string[] =>
      [...host.querySelectorAll('[role=option]')].map(
        option =>
          `${option.querySelector('.jp-prime-Completion-label')!.textContent}`
      );
    const selected = (): Element | null =>
      host.querySelector('[role=option][aria-selected=true]');

    async function mention(value: string): Promise<void> {
      type(value);
      // The variables arrive asynchronously.
      await React.act(async () => undefined);
    }

    it('are chosen by keyboard, and appear in the text and as a chip', async () => {
      render();
      await mention('plot @pen');
      expect(options()).toEqual(['penguins', 'pens', 'Cell 1']);
      press('ArrowDown');
      expect(selected()?.id).toBe(text().getAttribute('aria-activedescendant'));
      press('ArrowUp');
      expect(press('Enter')).toBe(true);
      expect(text().value).toBe('plot @penguins ');
      expect(controller.message.attach).toHaveBeenCalledWith({
        type: 'variable',
        value: 'penguins',
        mention: '@penguins'
      });
      expect(host.querySelector('.jp-prime-Chip')?.textContent).toBe(
        'penguins'
      );
      expect(options()).toEqual([]);
      press('Enter');
      expect(controller.message.send).toHaveBeenCalledTimes(1);
    });

    it('leave the cursor after the mention for the next keys', async () => {
      render();
      await mention('@pen');
      press('Enter');
      expect(text().value).toBe('@penguins ');
      type('@penguins @');
      await React.act(() => new Promise(requestAnimationFrame));
      expect(text().selectionStart).toBe('@penguins @'.length);
    });

    it('are dismissed with Escape until the next one', async () => {
      render();
      await mention('@');
      expect(options()).toHaveLength(3);
      expect(press('Escape')).toBe(true);
      await mention('@p');
      expect(options()).toEqual([]);
      expect(controller.interrupt).not.toHaveBeenCalled();
      await mention('@p @p');
      expect(options()).toHaveLength(3);
    });

    it('disappear with their mention, and come back with it', async () => {
      render();
      await mention('@pens');
      press('Tab');
      const chips = (): number =>
        host.querySelectorAll('.jp-prime-Chip').length;
      expect(chips()).toBe(1);
      type('@pen');
      expect(chips()).toBe(0);
      type('@pens');
      expect(chips()).toBe(1);
    });

    it('are removed with their button, or with Backspace at the start', () => {
      const file = { type: 'file', value: 'a.csv' } as const;
      render();
      React.act(() =>
        controller.message.attach(file, { ...file, value: 'b.csv' })
      );
      React.act(() =>
        host.querySelector<HTMLElement>('[aria-label="Remove a.csv"]')!.click()
      );
      expect(controller.state.attachments).toEqual([
        { ...file, value: 'b.csv' }
      ]);
      type('x');
      text().setSelectionRange(0, 0);
      expect(press('Backspace', { repeat: true })).toBe(false);
      expect(press('Backspace')).toBe(true);
      expect(controller.state.attachments).toEqual([]);
    });
  });

  it('sends a complete command', () => {
    render();
    type('/help');
    press('Enter');
    expect(controller.message.send).toHaveBeenCalledTimes(1);
  });

  it('brings back earlier messages and the unsent text', () => {
    const log = new Log();
    const conversation = new Conversation(() => 0);
    for (const sent of ['one', 'two']) {
      conversation.apply(recordFrame(log.add('user_message', { text: sent })));
    }
    render();
    React.act(() => controller.set({ conversation: conversation.snapshot() }));
    type('draft');
    text().setSelectionRange(3, 3);
    expect(press('ArrowUp')).toBe(false);
    text().setSelectionRange(0, 0);
    press('ArrowUp');
    expect(text().value).toBe('two');
    text().setSelectionRange(0, 0);
    press('ArrowUp');
    expect(text().value).toBe('one');
    text().setSelectionRange(3, 3);
    press('ArrowDown');
    press('ArrowDown');
    expect(text().value).toBe('draft');
  });

  it('does not bring the unsent text of another notebook', () => {
    const conversation = new Conversation(() => 0);
    const record = new Log().add('user_message', { text: 'sent' });
    conversation.apply(recordFrame(record));
    render();
    React.act(() => controller.set({ conversation: conversation.snapshot() }));
    type('secret');
    text().setSelectionRange(0, 0);
    press('ArrowUp');
    expect(text().value).toBe('sent');
    React.act(() => controller.set({ notebook: 'b.ipynb', draft: '' }));
    press('ArrowDown');
    expect(text().value).toBe('');
  });

  it('does not offer permissions that the administrator does not allow', () => {
    render();
    React.act(() =>
      controller.set({
        server: {
          permission_modes: ['ask', 'plan'],
          default_permission_mode: 'ask'
        } as IStatus,
        newSession: { permissionMode: 'auto', model: null }
      })
    );
    const select = host.querySelector('select')!;
    expect(select.value).toBe('ask');
    const [allowed, forbidden] = [false, true].map(disabled =>
      [...select.options].filter(option => option.disabled === disabled)
    );
    expect(allowed.map(option => option.value)).toEqual(['ask', 'plan']);
    expect(forbidden.map(option => option.value)).toEqual(['edit', 'auto']);
    for (const option of forbidden) {
      expect(option.text).toContain('not allowed on this server');
    }
  });

  it('is disabled without a notebook', () => {
    controller.state = { ...EMPTY_STATE };
    render();
    expect(text().disabled).toBe(true);
    expect(text().placeholder).toBe('Open a notebook first');
  });
});
