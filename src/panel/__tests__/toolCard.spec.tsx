import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import * as React from 'react';
import { createRoot, Root } from 'react-dom/client';

import { Conversation } from '../../model/conversation';
import { Log, replay, tool } from '../../model/__tests__/records';
import { IPanelContext, PanelProvider } from '../context';
import { EMPTY_STATE } from '../state';
import { ToolCard } from '../toolCard';

(globalThis as any).IS_REACT_ACT_ENVIRONMENT = true;

const CELL = '3f2a9c1e';

describe('ToolCard', () => {
  let log: Log;
  let host: HTMLElement;
  let root: Root;
  /** Cells of the open notebook. */
  let open: Record<string, string>;

  function call(name: string, input: object): void {
    log.add('assistant_message', {
      turn: 't1',
      content: [{ type: 'tool_use', id: 'c1', name, input }],
      model: 'm'
    });
  }

  function answer(text: string): void {
    log.add('tool_result', {
      turn: 't1',
      tool_use_id: 'c1',
      content: [{ type: 'text', text }],
      is_error: true
    });
  }

  function draw(conversation: Conversation = replay(log.records)): void {
    const context = {
      trans: nullTranslator.load('prime_ext'),
      settings: { toolCards: 'auto' },
      languages: null,
      controller: {
        snapshot: () => state,
        changed: new Signal({}),
        notebook: 'work.ipynb'
      },
      notebookView: {
        language: () => 'python',
        cellSource: (notebook: string, cell: string) =>
          notebook === 'work.ipynb' ? (open[cell] ?? null) : null
      }
    } as unknown as IPanelContext;
    const item = tool(conversation.snapshot().items[0]);
    React.act(() =>
      root.render(
        <PanelProvider value={context}>
          <ToolCard item={item} />
        </PanelProvider>
      )
    );
  }

  const state = EMPTY_STATE;
  const header = (): HTMLButtonElement => host.querySelector('button')!;
  const texts = (selector: string): (string | null)[] =>
    Array.from(host.querySelectorAll(selector)).map(node => node.textContent);

  beforeEach(() => {
    log = new Log();
    open = {};
    host = document.body.appendChild(document.createElement('div'));
    root = createRoot(host);
  });

  afterEach(() => {
    React.act(() => root.unmount());
    host.remove();
  });

  it('shows which cell runs', () => {
    open[CELL] = 'import time\nfor epoch in range(40):';
    call('run_cell', { cell_id: CELL });
    const conversation = replay(log.records);
    conversation.apply({ type: 'progress', what: 'tool', call_id: 'c1' });
    draw(conversation);
    expect(header().textContent).toContain('for epoch in range(40):');
    expect(host.textContent).not.toContain(CELL);
  });

  it('shows the changed lines with an approval request', () => {
    call('edit_cell', { cell_id: CELL, source: 'x = 2' });
    log.add('approval_request', {
      turn: 't1',
      call_id: 'c1',
      what: 'tool',
      summary: 'Edit cell 3: x = 1',
      detail: `\`\`\`diff\n--- a/cell ${CELL}\n+++ b/cell ${CELL}\n@@ -1 +1 @@\n-x = 1\n+x = 2\n\`\`\``
    });
    draw();
    expect(texts('.jp-prime-Diff-line')).toEqual([
      '−removedx = 1',
      '+addedx = 2'
    ]);
    expect(texts('.jp-prime-Approval-question')).toEqual([
      'Edit cell 3: x = 1'
    ]);
    expect(host.textContent).not.toContain(CELL);
  });

  it('explains a conflict to the user, in other words than to the agent', () => {
    const reason = `Cell ${CELL} does not hold what you expect: it was changed.`;
    call('edit_cell', { cell_id: CELL, source: 'agent = 1' });
    log.add('notebook_op', {
      turn: 't1',
      op_id: 'o1',
      op: 'edit_cell',
      cell_id: CELL,
      status: 'conflict',
      writer: 'browser',
      before: { source: 'mine = 1' },
      after: { source: 'agent = 1' },
      code: 'cell_conflict',
      reason
    });
    answer(`${reason} You wanted: agent = 1`);
    draw();
    expect(texts('.jp-prime-Tool-failure')).toEqual([
      'You changed this cell in the meantime; your version was kept.'
    ]);
    expect(texts('.jp-prime-Versions-names > [data-kind]')).toEqual([
      '− In the notebook',
      '+ The agent’s version'
    ]);
    expect(texts('.jp-prime-Diff-line')).toEqual([
      '−In the notebookmine = 1',
      '+The agent’s versionagent = 1'
    ]);
    expect(host.textContent).not.toMatch(/you expect|You wanted/);
  });

  it('shows the error, and when expanded the text that the agent was given', () => {
    call('read_file', { path: 'a.csv' });
    answer("There is no file 'a.csv'. Call list_files for what there is.");
    draw();
    expect(header().getAttribute('aria-expanded')).toBe('false');
    expect(texts('.jp-prime-Tool-failure')).toEqual([
      "There is no file 'a.csv'."
    ]);
    expect(host.textContent).not.toContain('list_files');
    React.act(() => header().click());
    expect(texts('.jp-prime-Tool-text')).toEqual([
      'Call list_files for what there is.'
    ]);
  });
});
