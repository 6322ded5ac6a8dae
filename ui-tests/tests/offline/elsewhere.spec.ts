import type { NotebookPanel } from '@jupyterlab/notebook';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { personOf } from '../../environment';
import {
  cellsOf,
  folderOf,
  openNotebook,
  savedCells,
  SteppedRun
} from '../documents';
import { expect, PrimePanel, test } from '../panel';

test('a message waits for a run without a browser on the same notebook', async ({
  page,
  tmpPath
}) => {
  const folder = folderOf(tmpPath);
  const path = `${tmpPath}/tour.ipynb`;
  const panel = await PrimePanel.onExample(page, tmpPath);
  const banner = panel.root.getByText('working on this notebook since');
  await page.evaluate(async () => {
    const { serviceManager, shell } = window.jupyterapp;
    // Lab complains about a notebook that is closed before it has its kernel.
    await (shell.currentWidget as NotebookPanel).sessionContext.ready;
    await serviceManager.sessions.shutdownAll();
  });
  await page.notebook.close(true);

  const run = new SteppedRun(folder, 'headless');
  const headless = promisify(execFile)(
    'jupyter',
    'prime run tour.ipynb --yes --model offline'.split(' ').concat(run.message),
    { cwd: folder, env: { ...process.env, ...personOf('offline') } }
  );
  await run.said(1);

  await test.step('the panel says who works on it', async () => {
    await openNotebook(page, path);
    await expect(banner).toContainText('“jupyter prime run”');
  });

  await test.step('a message is sent, and nothing begins', async () => {
    await panel.permissions.selectOption('auto');
    await panel.send('add a cell with `mine = 1`');
    await expect(panel.conversation).toContainText(
      'This notebook is in use by `jupyter prime run`'
    );
    await run.go(1);
    await expect(panel.stopButton).toBeVisible();
    expect(await cellsOf(page, path)).not.toContainEqual(
      expect.objectContaining({ source: 'mine = 1' })
    );
  });

  await test.step('it goes on by itself; the page shows both', async () => {
    run.open(2);
    await headless;
    await panel.answered(1);
    await expect(banner).toBeHidden();
    for (const cells of [
      await cellsOf(page, path),
      savedCells(join(folder, 'tour.ipynb'))
    ]) {
      expect(cells).toContainEqual(
        expect.objectContaining({ output: run.output })
      );
      expect(cells.map(({ source }) => source)).toContain('mine = 1');
    }
  });
});
