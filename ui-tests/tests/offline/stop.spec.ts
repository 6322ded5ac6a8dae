import type { NotebookPanel } from '@jupyterlab/notebook';
import { join } from 'node:path';
import {
  cellsOf,
  folderOf,
  outputOf,
  savedCells,
  SteppedRun
} from '../documents';
import { expect, PrimePanel, test } from '../panel';

test('Stop ends what the agent does, and nothing of the user’s', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  const prompt = panel.cells.last().locator('.jp-InputArea-prompt');
  const output = panel.cells.last().locator('.jp-OutputArea-output');
  const queue = panel.root.getByRole('list', { name: 'Queued messages' });

  await test.step('its own cell is interrupted; what waits is kept', async () => {
    const run = new SteppedRun(folderOf(tmpPath), 'own');
    await panel.send(run.message);
    await run.said(1);
    await panel.send("run: print('from the queue')");
    await expect(queue.getByRole('listitem')).toHaveCount(1);
    await panel.stopButton.click();

    await panel.answered(1);
    await expect(panel.turns).toContainText('Stopped');
    await expect(
      panel.tools('run_cell').getByRole('img', { name: 'stopped' })
    ).toBeVisible();
    await expect(prompt).toContainText(/\[\d+\]:/);
    await expect(output.first()).toHaveText(run.steps[0]);
    await expect(output.last()).toContainText('KeyboardInterrupt');
    await expect(queue.getByRole('listitem').first()).toContainText(
      'from the queue'
    );
    await expect(panel.conversation.getByRole('article')).toHaveCount(1);
    await panel
      .button("Edit queued message: run: print('from the queue')")
      .click();
    await expect(queue).toBeHidden();
    await expect(panel.composer).toHaveValue("run: print('from the queue')");
    await panel.composer.press('Enter');

    // Nothing is in the way of it.
    await panel.answered(2);
    await expect(panel.tools('run_code')).toContainText('from the queue');
  });

  await test.step('the user’s cell, behind which the agent waits, goes on', async () => {
    const run = new SteppedRun(folderOf(tmpPath), 'users');
    await page.evaluate(async code => {
      const { commands, shell } = window.jupyterapp;
      const { content } = shell.currentWidget as NotebookPanel;
      content.activeCellIndex = content.widgets.length - 1;
      await commands.execute('notebook:insert-cell-below');
      content.activeCell!.model.sharedModel.setSource(code);
      void commands.execute('notebook:run-cell');
    }, `${run.code}\nstep("${run.steps[0]}")\nstep("${run.steps[1]}", "${run.steps[0]}.go")`);
    await run.said(1);
    await panel.send('run: never = 1');
    await expect(panel.tools('run_code').last()).toContainText(
      'The kernel is busy'
    );
    await panel.composer.press('Escape');
    await panel.answered(3);
    await expect(panel.turns.last()).toContainText('Stopped');
    await expect(prompt).toContainText('[*]:');

    await run.go(1);
    await expect(output).toHaveText(run.steps.slice(0, 2).join('\n'));
    await panel.ask("run: print('never' in globals())");
    await expect(panel.tools('run_code').last()).toContainText('False');
  });

  await test.step('while it asks: nothing is done, and it asks again', async () => {
    await panel.permissions.selectOption('ask');
    const cells = await panel.cells.count();
    const question = panel.root.getByRole('group', { name: /insert/i });
    await panel.send('insert a cell with `marker = 12`');
    await expect(question).toBeVisible();
    await panel.stopButton.click();
    await panel.answered(5);
    await expect(panel.turns.last()).toContainText('Stopped');
    await expect(question).toHaveCount(0);
    await expect(panel.cells).toHaveCount(cells);

    await panel.send('insert a cell with `marker = 12`');
    await question.getByRole('button', { name: 'Allow once' }).click();
    await panel.answered(6);
    await expect(panel.cells).toHaveCount(cells + 1);
  });
});

test('a cell that ignores interrupts is left, and goes on in the notebook', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  const run = new SteppedRun(folderOf(tmpPath), 'deaf', true);
  const prompt = panel.cells.last().locator('.jp-InputArea-prompt');
  const card = panel.tools('run_cell').first();
  await panel.send(run.message);
  await run.said(1);
  await panel.stopButton.click();
  await panel.answered(1);
  await expect(panel.turns).toContainText('Stopped');
  await expect(card.getByRole('img', { name: 'running' })).toBeVisible();
  await expect(prompt).toContainText('[*]:');

  await panel.reload();
  await expect(card.getByRole('img', { name: 'running' })).toBeVisible();
  await run.go(1);
  await expect(outputOf(panel)).toContainText(run.steps[1]);
  await panel.ask('delete the last cell');
  await expect(panel.cells.last()).toContainText(run.steps[0]);
  await run.go(2);
  await expect(card.getByRole('img', { name: 'done' })).toBeVisible();
  await expect(prompt).toContainText(/\[\d+\]:/);
  const { output } = (await cellsOf(page, `${tmpPath}/tour.ipynb`)).at(-1)!;
  expect(output).toBe(run.output);
  await expect
    .poll(
      () => savedCells(join(folderOf(tmpPath), 'tour.ipynb')).at(-1)?.output
    )
    .toBe(run.output);
});
