import { expect, test } from '@jupyterlab/galata';

// Galata takes every answer of an address that ends like this one for Jupyter's list of sessions.
test.use({ sessions: null });

test('every plugin of the extension is activated', async ({ page }) => {
  const plugins = await page.evaluate(() => {
    const app = window.jupyterapp;
    return app
      .listPlugins()
      .filter(id => id.startsWith('prime_ext:'))
      .map(id => ({ id, active: app.isPluginActivated(id) }));
  });

  expect(plugins.length).toBeGreaterThan(0);
  expect(plugins.filter(({ active }) => !active)).toEqual([]);
});

test('nothing of the extension complains while JupyterLab starts', async ({
  page
}) => {
  const complaints: string[] = [];
  page.on('console', message => {
    if (
      ['warning', 'error'].includes(message.type()) &&
      /prime/i.test(message.text() + message.location().url)
    ) {
      complaints.push(message.text());
    }
  });
  page.on('pageerror', error => complaints.push(String(error)));

  await page.reload();

  expect(complaints).toEqual([]);
});
