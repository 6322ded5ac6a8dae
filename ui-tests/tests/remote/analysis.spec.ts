import { expect, figures, PrimePanel, test } from '../panel';

const BANNER = '[compaction] context reduced, kernel state preserved';

test('an analysis by a model, the threshold crossed, reload', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);

  await panel.send('Analyse the penguins, please.');
  // Before anything leaves, the panel says what and where to.
  const consent = panel.root.locator('.jp-prime-Approval');
  await expect(consent).toBeVisible();
  await expect(panel.root).toContainText('127.0.0.1');
  await consent.getByRole('button').first().click();
  await panel.answered(0);
  await expect(panel.root).toContainText('Heavier penguins have longer flippers');
  await expect(panel.tools('insert_cell')).toHaveCount(2);
  await expect(panel.tools('run_cell')).toHaveCount(2);
  await expect(figures(page)).toHaveCount(1);
  expect(await panel.userRuns('print(penguins.shape)')).toContain('(344, 8)');

  // One long output takes the context over its threshold.
  await panel.ask('print 900 lines');
  await expect(panel.banner).toHaveCount(1, { timeout: 60_000 });
  await expect(panel.banner).toContainText(BANNER);
  await expect(panel.root).toContainText('That was long.');

  await panel.ask('How many rows are there?');
  await expect(panel.root).toContainText('The kernel says: 344 rows');

  await page.reload();
  await panel.open();
  await expect(panel.banner).toContainText(BANNER);
  await expect(panel.root).toContainText('The kernel says: 344 rows');
  await expect(panel.root).toContainText('Analyse the penguins, please.');
});

test('Stop ends a reply that streams, and what came stays', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask('Hello');
  await panel.send('Tell a long story.');
  await expect(panel.root).toContainText('A penguin walked');
  await panel.composer.press('Escape');
  await panel.answered(1);
  await expect(panel.turns.last()).toContainText('Stopped');
  await expect(panel.root).toContainText('A penguin walked');
});

test('messages written while the agent is busy wait and can be taken back', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask('Hello');
  await panel.send('Tell a long story.');
  await expect(panel.root).toContainText('A penguin walked');
  await panel.send('first in the queue');
  await panel.send('second in the queue');
  const queue = panel.root.locator('.jp-prime-Queue');
  await expect(queue).toContainText('first in the queue');
  await expect(queue).toContainText('second in the queue');
  await queue.getByRole('button', { name: /remove/i }).first().click();
  await expect(queue).not.toContainText('first in the queue');
  await panel.answered(2);
  await expect(panel.root).toContainText('You said: second in the queue');
  await expect(panel.root).not.toContainText('You said: first in the queue');
});

test('an overloaded server is tried again, and the panel says so', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask('Hello');
  await panel.send(`fail 1 time ${tmpPath}`);
  await expect(panel.root).toContainText(/overloaded/i);
  await panel.answered(1);
  await expect(panel.root).toContainText('I am back.');
});

test('a refused request says what to do, and the session goes on', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask('Hello');
  await panel.ask('refuse this');
  await expect(panel.root.locator('.jp-prime-Failure')).toBeVisible();
  await panel.ask('And now?');
  await expect(panel.root).toContainText('You said: And now?');
});

test('tables, formulas and code are rendered', async ({ page, tmpPath }) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask('a table and a formula');
  await expect(panel.root.locator('table td').first()).toHaveText('Adelie');
  await expect(panel.root.locator('mjx-container').first()).toBeVisible();
  await expect(panel.root.locator('pre').first()).toContainText('body_mass_g');
});
