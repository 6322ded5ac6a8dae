import { BANNER, expect, PrimePanel, test } from '../panel';

test('an analysis in the open notebook, compaction, reload', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await expect(panel.model).toHaveText('Offline agent');
  const cells = await panel.cells.count();

  await panel.ask('load penguins.csv');
  await panel.ask('plot body_mass_g by species');
  await expect(panel.tools('insert_cell')).toHaveCount(2);
  await expect(panel.tools('run_cell')).toHaveCount(2);
  await expect(panel.cells).toHaveCount(cells + 2);
  await expect(panel.figures).toHaveCount(1);

  // The variable is in the user's own kernel.
  expect(await panel.userRuns('print(len(penguins))')).toContain('344');

  await panel.send('/compact');
  await expect(panel.banner).toHaveCount(1);
  await expect(panel.banner).toHaveText(BANNER);

  // What was made before is there to go on with.
  await panel.ask('mean of body_mass_g by species');
  await expect(panel.cells.last()).toContainText('5076');
  const counts = page.locator('.jp-InputPrompt');
  const executed = await counts.allInnerTexts();

  await panel.reload();
  await expect(panel.banner).toHaveText(BANNER);
  await expect(panel.conversation).toContainText('load penguins.csv');
  await expect(panel.conversation).toContainText('mean of body_mass_g');
  await expect(panel.turns).toHaveCount(3);
  await expect(panel.figures).toHaveCount(1);
  await expect(counts).toHaveText(executed);

  // The same session goes on, in the same kernel.
  expect(await panel.userRuns('print(len(penguins) + 1)')).toContain('345');
  await panel.ask('how many rows does penguins have?');
  await expect(panel.conversation).toContainText('344');
});

test('the tour shows every feature, a crash of the kernel included', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.button('Take the tour').click();
  await panel.answered(1);
  await expect(panel.conversation).toContainText('That was the tour');
  await expect(panel.banner).toHaveText(BANNER);
  await expect(panel.figures).toHaveCount(1);
  await expect(panel.root.locator('.jp-prime-Restore')).toContainText(
    'The kernel died and was started again'
  );
  // Made before the crash.
  expect(await panel.userRuns('print(len(tour_result))')).toContain('3');
});
