import { MimeModel, RenderMimeRegistry } from '@jupyterlab/rendermime';
import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import * as React from 'react';
import { createRoot } from 'react-dom/client';

import { CodeView } from '../codeView';
import { IPanelContext, PanelProvider } from '../context';
import { describedImageFactory } from '../describedImage';
import { MarkdownView } from '../markdownView';
import { OutputsView } from '../outputsView';
import { UntrustedRenderers } from '../untrusted';

(globalThis as any).IS_REACT_ACT_ENVIRONMENT = true;

const trans = nullTranslator.load('prime_ext');

describe('MarkdownView', () => {
  it('shows the text as it is if it cannot be rendered', async () => {
    const warn = jest.spyOn(console, 'warn').mockReturnValue();
    const rendermime = new RenderMimeRegistry();
    rendermime.addFactory({
      safe: true,
      mimeTypes: ['text/markdown'],
      createRenderer: () =>
        Object.assign(new Widget(), {
          renderModel: () => Promise.reject(new Error('No.'))
        })
    });
    const host = document.body.appendChild(document.createElement('div'));
    const root = createRoot(host);
    await React.act(async () =>
      root.render(
        <PanelProvider
          value={
            {
              renderers: { current: rendermime },
              trans
            } as unknown as IPanelContext
          }
        >
          <MarkdownView text="*strange*" />
        </PanelProvider>
      )
    );
    expect(host.textContent).toBe('*strange*');
    expect(warn).toHaveBeenCalled();
    React.act(() => root.unmount());
    warn.mockRestore();
  });
});

describe('CodeView', () => {
  it('shows the code as it is if the language cannot be loaded', async () => {
    const warn = jest.spyOn(console, 'warn').mockReturnValue();
    const context = {
      languages: {
        findBest: (name: string) => name,
        highlight: () => Promise.reject(new Error('No such chunk.'))
      },
      notebookView: { language: () => 'python' },
      trans
    } as unknown as IPanelContext;
    const host = document.body.appendChild(document.createElement('div'));
    const root = createRoot(host);
    for (const code of ['x = 1', 'x = 12']) {
      await React.act(async () =>
        root.render(
          <PanelProvider value={context}>
            <CodeView code={code} />
          </PanelProvider>
        )
      );
      expect(host.querySelector('code')!.textContent).toBe(code);
    }
    expect(warn).toHaveBeenCalledTimes(2);
    React.act(() => root.unmount());
    host.remove();
    warn.mockRestore();
  });
});

describe('an image', () => {
  it.each([
    [{ 'text/plain': '<Figure with 1 Axes>' }, '<Figure with 1 Axes>'],
    [{ 'text/plain': ['<Figure ', 'with 1 Axes>'] }, '<Figure with 1 Axes>'],
    [{}, 'Figure']
  ])('of %j is described', async (words, alt) => {
    const rendermime = new RenderMimeRegistry({
      initialFactories: [describedImageFactory(trans)]
    });
    const widget = rendermime.createRenderer('image/png');
    await widget.renderModel(
      new MimeModel({ data: { 'image/png': 'iVBORw0KGgo=', ...words } })
    );
    expect(widget.node.querySelector('img')?.alt).toBe(alt);
    widget.dispose();
  });
});

describe('OutputsView', () => {
  it('has the renderers that other plugins add after the panel was shown', async () => {
    const rendermime = new RenderMimeRegistry();
    const renderers = new UntrustedRenderers(
      rendermime,
      { resolver: null as any },
      describedImageFactory(trans)
    );
    const context = { renderers, trans } as unknown as IPanelContext;
    const host = document.body.appendChild(document.createElement('div'));
    const root = createRoot(host);
    const outputs = [
      {
        output_type: 'display_data',
        data: { 'application/x-plot': {} },
        metadata: {}
      }
    ];
    const show = (): Promise<void> =>
      React.act(async () =>
        root.render(
          <PanelProvider value={{ ...context }}>
            <OutputsView outputs={outputs} />
          </PanelProvider>
        )
      );
    await show();
    expect(host.textContent).not.toContain('plotted');
    const before = renderers.current;
    expect(renderers.current).toBe(before);
    rendermime.addFactory({
      safe: true,
      mimeTypes: ['application/x-plot'],
      createRenderer: () => {
        const widget = new Widget();
        return Object.assign(widget, {
          renderModel: async () => {
            widget.node.append('plotted');
          }
        });
      }
    });
    await show();
    expect(host.textContent).toContain('plotted');
    expect(renderers.current.getFactory('image/png')).toBeDefined();
    React.act(() => root.unmount());
    host.remove();
  });
});
