/** Makes the pictures of the documentation: `PRIME_DOCS=1 jlpm test:ui --project=docs`. */
import type { Locator } from '@playwright/test';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, forgetConsent, PrimePanel, test } from '../panel';

const IMAGES = resolve(__dirname, '../../../docs/images');

/** A palette is enough for text on plain ground, and a quarter of the size. */
const PALETTE = `
import sys
from PIL import Image
for path in sys.argv[1:]:
    image = Image.open(path).convert("RGB")
    image.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
`;

test.use({
  deviceScaleFactor: 2,
  expectedErrors: [/status of 4\d\d/]
});

test('pictures of the panel', async ({ page, tmpPath, request, baseURL }) => {
  const shot = (of: Locator | typeof page, name: string): Promise<Buffer> =>
    of.screenshot({
      path: join(IMAGES, `${name}.png`),
      animations: 'disabled',
      caret: 'initial'
    });
  const credentials = `${baseURL}/prime/api/credentials`;

  forgetConsent();
  await page.evaluate(() =>
    localStorage.setItem(
      'prime_ext:hints-seen',
      '["queue", "compaction", "cards", "slash"]'
    )
  );
  await page.reload();
  const panel = await PrimePanel.onExample(page, tmpPath, 'ask');
  await page.sidebar.close('left');
  await page.sidebar.setWidth(400, 'right');
  await panel.open();
  await shot(panel.root, 'panel-empty');

  await panel.send('Analyse the penguins, please.');
  await expect(panel.consent).toBeVisible();
  await shot(panel.root, 'panel-consent');
  await panel.consent
    .getByRole('button', { name: 'Send', exact: true })
    .click();

  const session = panel.button('Allow for this session');
  await expect(session).toBeVisible();
  await shot(panel.root, 'panel-approval');
  await session.click();
  await expect(
    panel.tools('run_cell').getByRole('button', { name: /session/ })
  ).toBeVisible();
  await session.click();
  await panel.answered(1);

  const card = panel.tools('run_cell').last().getByRole('button').first();
  await card.click();
  await expect(panel.tools('run_cell').last().locator('img')).toBeVisible();
  await shot(panel.root, 'panel-tool');
  await page.theme.setDarkTheme();
  await shot(panel.root, 'panel-dark');
  await page.theme.setLightTheme();
  await card.click();

  await panel.figures.first().scrollIntoViewIfNeeded();
  await page.mouse.move(0, 0);
  await shot(page, 'panel');

  await panel.send('Describe the data.');
  await expect(panel.conversation).toContainText('describe()');
  await shot(panel.root, 'panel-streaming');
  await panel.send('And plot the bills by species.');
  await expect(panel.root.locator('.jp-prime-Queue')).toBeVisible();
  await shot(panel.root, 'panel-queued');
  await panel
    .button('Remove queued message: And plot the bills by species.')
    .click();
  await panel.answered(2);

  await panel.send('/compact');
  await panel.banner.getByRole('button').click();
  await panel.banner.evaluate(banner => banner.scrollIntoView());
  await shot(panel.root, 'panel-compaction');
  await panel.banner.getByRole('button').click();

  await panel.ask('How many rows are there?');
  await page.sidebar.setWidth(280, 'right');
  await shot(panel.root, 'panel-narrow');
  await page.sidebar.setWidth(400, 'right');

  try {
    await request.put(credentials, {
      data: {
        provider: 'anthropic',
        api_key: 'a-wrong-key',
        base_url: process.env.PRIME_TEST_API
      }
    });
    await panel.button('New session').click();
    await panel.ask('Which species is the heaviest?');
    await shot(panel.root, 'panel-error');
  } finally {
    await request.delete(credentials);
  }

  await panel.button('More').click();
  await panel.menuItem('Connect a model…').click();
  await expect(panel.root.getByLabel('API key')).toBeVisible();
  await shot(panel.root, 'panel-connect');

  execFileSync('python', [
    '-c',
    PALETTE,
    ...readdirSync(IMAGES)
      .filter(name => name.startsWith('panel'))
      .map(name => join(IMAGES, name))
  ]);
});
