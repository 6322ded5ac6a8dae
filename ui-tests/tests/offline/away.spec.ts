import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import type { WebSocketRoute } from '@playwright/test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  cellsOf,
  command,
  folderOf,
  openNotebook,
  outputOf,
  savedCells,
  SteppedRun,
  typeInto
} from '../documents';
import { expect, PrimePanel, test } from '../panel';

test.use({ expectedErrors: [/ERR_FAILED|WebSocket/] });

/** The way from the page to the server, which a laptop that sleeps has not. */
class Connection {
  static async of(page: IJupyterLabPageFixture): Promise<Connection> {
    const connection = new Connection();
    await page.routeWebSocket(/\/api\//, socket => {
      if (connection._isCut) {
        void socket.close();
        return;
      }
      socket.connectToServer();
      connection._sockets.push(socket);
    });
    await page.route(/\/api\//, route =>
      connection._isCut ? route.abort() : route.fallback()
    );
    await page.reload();
    return connection;
  }

  async cut(): Promise<void> {
    this._isCut = true;
    await Promise.all(this._sockets.splice(0).map(socket => socket.close()));
  }

  restore(): void {
    this._isCut = false;
  }

  private _isCut = false;
  private _sockets: WebSocketRoute[] = [];
}

test('what the server wrote while the page was away is put together with what was typed there', async ({
  page,
  tmpPath
}) => {
  test.slow();
  const connection = await Connection.of(page);
  const panel = await PrimePanel.onExample(page, tmpPath);
  const [path, file] = [
    `${tmpPath}/bare.ipynb`,
    join(folderOf(tmpPath), 'bare.ipynb')
  ];
  // As scripts write notebooks: JupyterLab adds the language while it loads the file.
  const bare = JSON.parse(
    readFileSync(join(folderOf(tmpPath), 'tour.ipynb'), 'utf8')
  );
  delete bare.metadata.language_info;
  writeFileSync(file, JSON.stringify(bare));
  await openNotebook(page, path);
  await panel.permissions.selectOption('auto');
  const run = new SteppedRun(folderOf(tmpPath), 'away');
  await panel.send(run.message);
  await expect(outputOf(panel)).toContainText(run.steps[0]);
  await panel.send('delete cell 3');
  await panel.send('insert a cell with `while_away = 1`');

  await connection.cut();
  await typeInto(page, 1, 'typed_while_away = 1');
  await typeInto(page, 2, 'typed_and_deleted = 1');
  await run.go(1);
  await run.go(2);
  await expect
    .poll(() => savedCells(file).at(-1)?.source, { timeout: 60_000 })
    .toBe('while_away = 1');

  connection.restore();
  const expected = [
    { source: 'typed_while_away = 1', output: '', count: null },
    { source: 'typed_and_deleted = 1', output: '', count: null },
    {
      source: expect.stringContaining('def step'),
      output: run.output,
      count: 1
    },
    { source: 'while_away = 1', output: '', count: null }
  ];
  const seen = async () => {
    const cells = await cellsOf(page, path);
    return [cells[1], cells[2], ...cells.slice(-2)];
  };
  await expect.poll(seen, { timeout: 60_000 }).toEqual(expected);
  const prompts = panel.cells.locator('.jp-InputArea-prompt');
  await expect(prompts.filter({ hasText: '[*]' })).toHaveCount(0);
  const dirty = page.locator('.jp-mod-dirty', { hasText: 'bare.ipynb' });
  await expect(dirty).toHaveCount(1);

  // Lab tells of the lost connection in a dialog.
  const dialog = page.locator('.jp-Dialog');
  while (await dialog.isVisible()) {
    await dialog.getByRole('button').last().click();
  }
  await expect(
    page.getByText('A cell of bare.ipynb was changed both here and in the file')
  ).toBeVisible();
  await page.getByRole('button', { name: 'Compare' }).click();
  await expect(dialog).toContainText('typed_and_deleted = 1');
  await expect(dialog).toContainText('(deleted)');
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await expect(dialog).toHaveCount(0);

  // Lab asks nothing when it is saved.
  await command(page, 'docmanager:save');
  await expect
    .poll(() => savedCells(file)[1].source)
    .toBe('typed_while_away = 1');
  await expect(dialog).toHaveCount(0);
  expect(savedCells(file)).toEqual(await cellsOf(page, path));

  await panel.answered(3);
  await panel.ask('insert a cell with `after_that = 1`');
  await expect(panel.failure).toHaveCount(0);
  expect(savedCells(file).at(-1)!.source).toBe('after_that = 1');
  expect(savedCells(file)).toEqual(await cellsOf(page, path));
});
