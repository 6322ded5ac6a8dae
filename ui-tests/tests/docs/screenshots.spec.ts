/** Makes the pictures of the documentation: `PRIME_DOCS=1 jlpm test:ui --project=docs`. */
import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
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

test.use({ deviceScaleFactor: 2 });

test('pictures of the panel', async ({ page, tmpPath }) => {
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
  await closeLauncher(page);
  await panel.open();
  await shot(page, panel.root, 'panel-empty');

  await panel.send('What can you do?');
  await expect(panel.consent).toBeVisible();
  await shot(page, panel.root, 'panel-consent');
  await panel.consent
    .getByRole('button', { name: 'Send', exact: true })
    .click();
  await panel.answered(1);
  await panel.button('New session').click();
  await expect(panel.conversation).toBeHidden();

  await panel.send('Analyse the penguins, please.');
  const session = panel.button('Allow for this session');
  await expect(session).toBeVisible();
  await shot(page, panel.root, 'panel-approval');
  await session.click();
  await expect(
    panel.tools('run_cell').getByRole('button', { name: /session/ })
  ).toBeVisible();
  await session.click();
  await panel.answered(1);

  const card = panel.tools('run_cell').last().getByRole('button').first();
  await card.click();
  await expect(panel.tools('run_cell').last().locator('img')).toBeVisible();
  await shot(page, panel.root, 'panel-tool');
  await page.theme.setDarkTheme();
  await shot(page, panel.root, 'panel-dark');
  await page.theme.setLightTheme();
  await card.click();

  await panel.figures.first().evaluate(figure => figure.scrollIntoView(false));
  await panel.send('Describe the data.');
  await expect(panel.conversation).toContainText('groupby');
  await panel.send('And plot the bills by species.');
  await expect(panel.root.locator('.jp-prime-Queue')).toBeVisible();
  await shot(page, panel.root, 'panel-queued');
  await shot(page, page, 'panel');
  await panel.stopButton.click();
  await panel
    .button('Remove queued message: And plot the bills by species.')
    .click();
  await panel.answered(2);

  await panel.send('/compact');
  await panel.banner.getByRole('button').click();
  await panel.banner.evaluate(banner => banner.scrollIntoView());
  await shot(page, panel.root, 'panel-compaction');
  await panel.banner.getByRole('button').click();

  await panel.permissions.selectOption('auto');
  await panel.ask('How many rows are there?');
  await page.sidebar.setWidth(280, 'right');
  await shot(page, panel.root, 'panel-narrow');
  await page.sidebar.setWidth(400, 'right');
});

test.describe('without a model', () => {
  test.use({
    baseURL: process.env.TARGET_URL,
    // The browser says so itself when a key is refused.
    expectedErrors: [/400.*\/prime\/api\/credentials/]
  });
  test.afterEach(async ({ request, baseURL }) => {
    await request.delete(`${baseURL}/prime/api/credentials`);
  });

  test('pictures of connecting one', async ({ page, tmpPath }) => {
    const panel = await PrimePanel.onExample(page, tmpPath);
    await page.sidebar.setWidth(400, 'right');
    await panel.button('Connect a model…').click();
    await panel.root.getByLabel(/^Another server/).check();
    await panel.root.getByLabel('Base URL').fill(process.env.PRIME_TEST_API!);
    await panel.root.getByLabel(/^API key/).fill('a-wrong-key');

    await panel.button('Connect').click();
    await expect(panel.failure).toContainText('refused the key');
    await shot(page, panel.root, 'panel-error');
  });
});

/** The launcher is open beside the notebook if Lab had nothing to restore. */
async function closeLauncher(page: IJupyterLabPageFixture): Promise<void> {
  await page.evaluate(() => {
    for (const widget of window.jupyterapp.shell.widgets('main')) {
      if (widget.node.querySelector('.jp-Launcher')) {
        widget.close();
      }
    }
  });
}

test.afterAll(() => {
  execFileSync('python', [
    '-c',
    PALETTE,
    ...readdirSync(IMAGES)
      .filter(name => name.startsWith('panel'))
      .map(name => join(IMAGES, name))
  ]);
});

async function shot(
  page: IJupyterLabPageFixture,
  of: Locator | IJupyterLabPageFixture,
  name: string
): Promise<void> {
  await page.mouse.move(0, 0);
  await of.screenshot({
    path: join(IMAGES, `${name}.png`),
    animations: 'disabled'
  });
}
