import type { NotebookPanel } from '@jupyterlab/notebook';
import { command } from '../documents';
import { expect, PrimePanel, test } from '../panel';

const CELL = [
  'Insert a cell and run it:',
  '```python',
  'import asyncio',
  'said = asyncio.Queue()',
  'async def later(said=said):',
  '    while True:',
  '        print(await said.get(), end="", flush=True)',
  'task = asyncio.create_task(later())',
  'bar = display("bar 0", display_id="bar")',
  'print("now 0 %", end="")',
  '```'
].join('\n');

/** What the agent is to run beside the notebook. */
function code(...lines: string[]): string {
  return ['```python', ...lines, '```'].join('\n');
}

test('what comes behind the end of a run, and what later code makes of its displays, is in the cell', async ({
  page,
  tmpPath
}) => {
  test.slow();
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask(CELL);
  const index = (await panel.cells.count()) - 1;
  const output = panel.cells.nth(index).locator('.jp-OutputArea');
  const times = async (text: string): Promise<number> =>
    (await output.innerText()).split(text).length - 1;
  await expect(output).toContainText('bar 0');
  await expect(output).toContainText('now 0 %');

  await test.step('by the person’s code, and by the agent’s', async () => {
    await panel.userRuns(
      [
        'from IPython.display import update_display',
        'said.put_nowait("\\rnow 50 %")',
        'update_display("bar 5", display_id="bar")',
        'print("asked")'
      ].join('\n')
    );
    await expect(output).toContainText('now 50 %');
    await expect(output).toContainText('bar 5');
    await expect(output).not.toContainText('now 0 %');
    await expect(output).not.toContainText('bar 0');
    await panel.ask(
      code(
        'said.put_nowait(" done\\n")',
        'update_display("bar 9", display_id="bar")'
      )
    );
    await expect(output).toContainText('now 50 % done');
    await expect(output).toContainText('bar 9');
    expect(await times('done')).toBe(1);
  });

  await test.step('cleared by the person: what comes is appended', async () => {
    await page.evaluate(index => {
      const panel = window.jupyterapp.shell.currentWidget as NotebookPanel;
      panel.content.activeCellIndex = index;
    }, index);
    await command(page, 'notebook:clear-cell-output');
    await expect(output).not.toContainText('done');
    await panel.ask(
      code(
        'said.put_nowait("after\\n")',
        'update_display("bar 10", display_id="bar")'
      )
    );
    await expect(output).toContainText('after');
    await expect(output).not.toContainText('bar 10');
  });

  await test.step('run again, by either: the run before is silent', async () => {
    await panel.ask(code('old = said'));
    await command(page, 'notebook:run-cell');
    await expect(output).toContainText('bar 0');
    await panel.ask(code('old.put_nowait("OLD")', 'said.put_nowait(" NEW")'));
    await expect(output).toContainText('NEW');
    await expect(output).not.toContainText('OLD');
    expect(await times('NEW')).toBe(1);

    await panel.ask(code('old = said'));
    await panel.ask(`run cell ${index + 1}`);
    await expect(output).not.toContainText('NEW');
    await panel.ask(code('old.put_nowait("OLD")', 'said.put_nowait(" NEWER")'));
    await expect(output).toContainText('NEWER');
    await expect(output).not.toContainText('OLD');
    await panel.ask(code('update_display("bar 77", display_id="bar")'));
    await expect(output).toContainText('bar 77');
  });
});
