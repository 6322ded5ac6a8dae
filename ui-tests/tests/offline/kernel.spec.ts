import { join } from 'node:path';
import {
  cellsOf,
  command,
  folderOf,
  outputOf,
  savedCells,
  SteppedRun
} from '../documents';
import { expect, PrimePanel, test } from '../panel';

test('the kernel is interrupted, restarted, and dies in the middle of a run', async ({
  page,
  tmpPath
}) => {
  test.slow();
  const panel = await PrimePanel.onExample(page, tmpPath);
  const tour = `${tmpPath}/tour.ipynb`;
  const file = join(folderOf(tmpPath), 'tour.ipynb');
  const card = panel.tools('run_cell').last();
  const answer = panel.conversation.locator('.jp-prime-Text').last();
  const restored = panel.root.locator('.jp-prime-Restore').last();

  const start = async (name: string): Promise<SteppedRun> => {
    const run = new SteppedRun(folderOf(tmpPath), name);
    await panel.send(run.message);
    // Until it is there, the last cell is one that was interrupted, and shows that too.
    await expect(outputOf(panel).first()).toContainText(run.steps[0]);
    return run;
  };
  /** The cell is at rest, shows what it had said, and is saved so. */
  const ended = async (run: SteppedRun, turns: number): Promise<void> => {
    await panel.answered(turns);
    await expect(
      panel.cells.last().locator('.jp-InputArea-prompt')
    ).not.toContainText('[*]');
    const cells = await cellsOf(page, tour);
    expect(cells.at(-1)!.output).toContain(run.steps[0]);
    expect(cells.at(-1)!.output).not.toContain(run.steps[1]);
    expect(savedCells(file)).toEqual(cells);
  };

  await test.step('interrupted by the person', async () => {
    const run = await start('interrupted');
    await command(page, 'notebook:interrupt-kernel');
    await ended(run, 1);
    await expect(card.getByRole('img', { name: 'failed' })).toBeVisible();
    await expect(card).toContainText('KeyboardInterrupt');
    await expect(answer).toContainText('KeyboardInterrupt');
  });

  await panel.ask('```python\nkept = 42\n```');

  await test.step('restarted by the person', async () => {
    const run = await start('restarted');
    await command(page, 'notebook:restart-kernel');
    await page
      .getByRole('dialog')
      .getByRole('button', { name: 'Confirm Kernel Restart' })
      .click();
    await ended(run, 3);
    await expect(card).toContainText('restarted');
    await expect(restored).toContainText('The kernel was restarted');
    await panel.button('Restore variables').click();
    await expect(restored).toContainText('restored');
    expect(await panel.userRuns('print(kept)')).toContain('42');
  });

  await test.step('crashed', async () => {
    const run = new SteppedRun(folderOf(tmpPath), 'crashed');
    await panel.send(
      [
        'Insert a cell and run it:',
        '```python',
        'import os',
        run.code,
        `step("${run.steps[0]}")`,
        `step("", after="${run.steps[0]}.go")`,
        'os._exit(1)',
        '```'
      ].join('\n')
    );
    // What the kernel has printed is lost with it unless it was sent.
    await expect(outputOf(panel)).toContainText(run.steps[0]);
    run.open(1);
    await ended(run, 4);
    await expect(card).toContainText('The kernel died');
    await expect(restored).toContainText(
      'The kernel died and was started again'
    );
    // Lab itself says in front of everything that the kernel died.
    await page.getByRole('dialog').getByRole('button', { name: 'Ok' }).click();
    expect(await panel.userRuns('print(kept + 1)')).toContain('43');
  });
});
