import type { NotebookPanel } from '@jupyterlab/notebook';
import { readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { folderOf } from '../documents';
import { expect, PrimePanel, test } from '../panel';

const REVERT = 'Revert this turn’s edits';

/** Sources of the cells of the notebook in front. */
function sources(panel: PrimePanel): Promise<string[]> {
  return panel.page.evaluate(() =>
    (
      window.jupyterapp.shell.currentWidget as NotebookPanel
    ).content.widgets.map(cell => cell.model.sharedModel.source)
  );
}

test('what the agent changed in a turn is taken back, and nothing else', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  const before = await sources(panel);

  await test.step('a deleted cell comes back, by keyboard', async () => {
    await panel.ask('delete cell 2');
    await expect(panel.cells).toHaveCount(before.length - 1);
    await panel.userRuns('print(1)');
    await panel.button(REVERT).focus();
    await page.keyboard.press('Enter');
    await expect(panel.conversation).toContainText('1 cell reverted');
    await expect(panel.button(REVERT)).toHaveCount(0);
    expect(await sources(panel)).toEqual([...before, 'print(1)']);
    const saved = readFileSync(join(folderOf(tmpPath), 'tour.ipynb'), 'utf8');
    expect(
      JSON.parse(saved).cells.map((cell: any) => [cell.source].flat().join(''))
    ).toEqual([...before, 'print(1)']);
  });

  await test.step('undo in the editor takes the revert back', async () => {
    await page.evaluate(() =>
      window.jupyterapp.commands.execute('notebook:undo-cell-action')
    );
    await expect(panel.cells).toHaveCount(before.length);
    await page.evaluate(() =>
      window.jupyterapp.commands.execute('notebook:redo-cell-action')
    );
    expect(await sources(panel)).toEqual([...before, 'print(1)']);
  });

  await test.step('a cell changed since is left, with both sides', async () => {
    await panel.ask('edit cell 2 to `marker = 1`');
    expect((await sources(panel))[1]).toBe('marker = 1');
    await page.evaluate(() => {
      const { content } = window.jupyterapp.shell
        .currentWidget as NotebookPanel;
      content.widgets[1].model.sharedModel.setSource('marker = 1  # mine');
    });
    await panel.button(REVERT).click();
    const left = panel.root.locator('.jp-prime-Revert-cell');
    await expect(panel.conversation).toContainText('1 left as it is');
    await expect(left).toContainText('It was changed since.');
    await expect(left).toContainText('marker = 1  # mine');
    await expect(left).toContainText(before[1].split('\n')[0]);
    expect((await sources(panel))[1]).toBe('marker = 1  # mine');
  });
});

test('a question is still there behind a reload, and its answer counts', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath, 'ask');
  const cells = await panel.cells.count();
  await panel.send('insert a cell with `marker = 12`');
  const question = panel.root.getByRole('group', { name: /insert/i });
  await expect(question).toBeVisible();
  await panel.reload();
  await expect(panel.tools('insert_cell')).toContainText('marker = 12');
  await expect(panel.cells).toHaveCount(cells);
  await question.getByRole('button', { name: 'Allow once' }).click();
  await panel.answered(1);
  await expect(panel.cells).toHaveCount(cells + 1);
  await expect(question).toHaveCount(0);
});

test('a session follows its notebook that was moved outside of Jupyter', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask('/help');
  await page.notebook.close(true);
  const folder = folderOf(tmpPath);
  renameSync(join(folder, 'tour.ipynb'), join(folder, 'moved.ipynb'));

  await page.evaluate(async path => {
    await window.jupyterapp.commands.execute('docmanager:open', { path });
  }, `${tmpPath}/moved.ipynb`);
  await panel.open();
  await expect(panel.turns).toHaveCount(0);
  await panel.session.click();
  await panel.menuItem('Attach a session to this notebook…').click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('tour.ipynb');
  await dialog.getByRole('button', { name: 'Attach' }).click();
  await panel.answered(1);
  await panel.ask('insert a cell with `here = 1`');
  await expect(panel.cells.last()).toContainText('here = 1');
  await panel.session.click();
  await expect(panel.menuItem(/^Attach/)).toHaveCount(0);
});
