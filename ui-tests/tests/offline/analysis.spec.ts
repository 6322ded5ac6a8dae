import { expect, figures, PrimePanel, test } from '../panel';

const BANNER = '[compaction] context reduced, kernel state preserved';

test('an analysis in the open notebook, compaction, reload', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await expect(panel.root).toContainText('Offline agent');

  await panel.ask('load penguins.csv');
  await panel.ask('plot body_mass_g by species');
  await expect(figures(page)).toHaveCount(1);
  await panel.ask('mean of body_mass_g by species');

  // The variable is in the user's own kernel.
  expect(await panel.userRuns('print(len(penguins))')).toContain('344');

  await panel.send('/compact');
  await expect(panel.banner).toHaveCount(1);
  await expect(panel.banner).toContainText(BANNER);

  await panel.ask('how many rows does penguins have?');
  await expect(panel.root).toContainText('344');

  await page.reload();
  await panel.open();
  await expect(panel.banner).toContainText(BANNER);
  await expect(panel.root).toContainText('load penguins.csv');
  await expect(panel.root).toContainText('how many rows does penguins have?');
  await expect(figures(page)).toHaveCount(1);
});

test('in the mode “ask” each change waits, and keys decide', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath, 'ask');
  const cells = await page.notebook.getCellCount();

  await panel.send('insert a cell with `marker = 12`');
  const approval = panel.root.getByRole('group', { name: /insert/i });
  await expect(approval).toBeVisible();
  await expect(panel.tools('insert_cell')).toContainText('marker = 12');
  expect(await page.notebook.getCellCount()).toBe(cells);
  await approval.press('d');
  await panel.answered(0);
  expect(await page.notebook.getCellCount()).toBe(cells);

  await panel.send('insert a cell with `marker = 12`');
  await panel.root.getByRole('button', { name: 'Allow once' }).click();
  await panel.answered(1);
  expect(await page.notebook.getCellCount()).toBe(cells + 1);
});

test('the tour shows every feature, a crash of the kernel included', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask('/tour');
  await expect(panel.root).toContainText('That was the tour');
  await expect(panel.banner).toContainText(BANNER);
  await expect(panel.root.locator('.jp-prime-Restore')).toContainText('restored');
  expect(await panel.userRuns('print(len(tour_result))')).toContain('3');
});

test('the panel is usable at 280 pixels', async ({ page, tmpPath }) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await page.sidebar.setWidth(280, 'right');
  await panel.ask('/help');
  const overflow = await panel.root.evaluate(element =>
    [...element.querySelectorAll<HTMLElement>('.jp-prime-Panel-content *')]
      .filter(
        child =>
          child.getBoundingClientRect().right >
            element.getBoundingClientRect().right + 1 &&
          !child.closest('.jp-prime-VisuallyHidden, pre, table')
      )
      .map(child => child.className)
  );
  expect(overflow).toEqual([]);
});
