import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import * as React from 'react';
import { createRoot, Root } from 'react-dom/client';

import { INotebookInUse } from '../../api/rest';
import { IPanelContext, PanelProvider } from '../context';
import { ElsewhereBanner } from '../elsewhereBanner';
import { EMPTY_STATE, IPanelState } from '../state';

(globalThis as any).IS_REACT_ACT_ENVIRONMENT = true;

const RUN: INotebookInUse = {
  notebook: 'work.ipynb',
  url: null,
  pid: 4242,
  host: null,
  since: '2026-11-30T10:24:00+00:00'
};

class Active {
  changed = new Signal<this, void>(this);
  elsewhere: readonly INotebookInUse[] = [];
  refresh = jest.fn();

  tell(...elsewhere: INotebookInUse[]): void {
    this.elsewhere = elsewhere;
    this.changed.emit();
  }
}

describe('ElsewhereBanner', () => {
  let active: Active;
  let host: HTMLElement;
  let root: Root;

  function show(changes: Partial<IPanelState>): void {
    const context = {
      active,
      trans: nullTranslator.load('prime_ext')
    } as unknown as IPanelContext;
    React.act(() =>
      root.render(
        <PanelProvider value={context}>
          <ElsewhereBanner state={{ ...EMPTY_STATE, ...changes }} />
        </PanelProvider>
      )
    );
  }

  beforeEach(() => {
    active = new Active();
    host = document.body.appendChild(document.createElement('div'));
    root = createRoot(host);
  });

  afterEach(() => {
    React.act(() => root.unmount());
    host.remove();
  });

  it('names the process that works on the current notebook, while it does', () => {
    show({ notebook: 'work.ipynb' });
    const region = host.querySelector('[role="status"]')!;
    expect(region.textContent).toBe('');
    React.act(() => active.tell(RUN, { ...RUN, notebook: 'other.ipynb' }));
    expect(region.textContent).toMatch(
      /^“jupyter prime run” has been working on this notebook since .*2026.* \(process 4242\)\. The agent here starts/
    );
    show({ notebook: 'third.ipynb' });
    expect(region.textContent).toBe('');
    show({ notebook: 'work.ipynb' });
    React.act(() => active.tell());
    expect(region.textContent).toBe('');
  });

  it('names a server, and its host if it is another one', () => {
    const url = 'http://localhost:8888/';
    active.elsewhere = [{ ...RUN, url, host: 'node7' }];
    show({ notebook: 'work.ipynb' });
    expect(host.textContent).toContain(`Jupyter server at ${url}`);
    expect(host.textContent).toContain('(process 4242 on node7)');
  });

  it('refreshes when another notebook is shown and when a turn has waited', () => {
    const phase = (name: string): Partial<IPanelState> => ({
      notebook: 'work.ipynb',
      conversation: { activity: { phase: name } } as IPanelState['conversation']
    });
    show({ notebook: 'work.ipynb' });
    expect(active.refresh).toHaveBeenCalledTimes(1);
    show(phase('wait'));
    show(phase('model'));
    show(phase('tool'));
    expect(active.refresh).toHaveBeenCalledTimes(3);
    show({ notebook: 'other.ipynb' });
    expect(active.refresh).toHaveBeenCalledTimes(4);
  });
});
