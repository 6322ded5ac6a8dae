import { BANNER, expect, forgetConsent, PrimePanel, test } from '../panel';

test('an analysis by a model, the threshold crossed, reload', async ({
  page,
  tmpPath
}) => {
  forgetConsent();
  const panel = await PrimePanel.onExample(page, tmpPath);

  // Before anything leaves, the panel says what and where to.
  await panel.send('Analyse the penguins, please.');
  await expect(panel.consent).toContainText('127.0.0.1');
  await panel.consent.getByRole('button', { name: 'Do not send' }).click();
  await panel.answered(1);
  await expect(panel.failure).toContainText('Nothing was sent to 127.0.0.1');

  await panel.button('Try again').click();
  await panel.consent
    .getByRole('button', { name: 'Send', exact: true })
    .click();
  await panel.answered(2);
  await expect(panel.model).toContainText('claude');
  await expect(panel.conversation).toContainText(
    'Heavier penguins have longer flippers'
  );
  await expect(panel.tools('insert_cell')).toHaveCount(2);
  await expect(panel.tools('run_cell')).toHaveCount(2);
  await expect(panel.figures).toHaveCount(1);

  // A card opens to what came of its call, the figure too.
  await panel.tools('run_cell').last().getByRole('button').first().click();
  await expect(panel.tools('run_cell').last().locator('img')).toBeVisible();

  // The variable is in the user's own kernel.
  expect(await panel.userRuns('print(penguins.shape)')).toContain('(344, 8)');

  // One long output takes the context over its threshold. It is asked for once: consent holds.
  await panel.ask('print 900 lines');
  await expect(panel.banner).toHaveCount(1, { timeout: 60_000 });
  await expect(panel.banner).toHaveText(BANNER);
  await expect(panel.conversation).toContainText('That was long.');
  await expect(panel.tools('run_code')).toContainText('line 899 of many');
  await panel.banner.getByRole('button').click();
  await expect(panel.banner).toContainText(
    'The variable penguins holds the data'
  );

  // What was made before is there to go on with.
  await panel.ask('How many rows are there?');
  await expect(panel.conversation).toContainText('The kernel says: 344 rows');

  await panel.reload();
  await expect(panel.banner).toHaveText(BANNER);
  await expect(panel.conversation).toContainText(
    'Analyse the penguins, please.'
  );
  await expect(panel.conversation).toContainText('The kernel says: 344 rows');
  await expect(panel.turns).toHaveCount(4);
  await expect(panel.figures).toHaveCount(1);
  expect(await panel.userRuns('print(len(penguins) + 1)')).toContain('345');
});
