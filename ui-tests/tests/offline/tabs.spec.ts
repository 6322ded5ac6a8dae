import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  cellsOf,
  command,
  folderOf,
  openNotebook,
  outputOf,
  reload,
  savedCells,
  SteppedRun,
  typeInto
} from '../documents';
import { expect, PrimePanel, test } from '../panel';

test('with another notebook in front, all goes to the one it belongs to', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  const [tour, other] = [`${tmpPath}/tour.ipynb`, `${tmpPath}/other.ipynb`];
  const run = new SteppedRun(folderOf(tmpPath), 'behind');
  await page.contents.uploadContent(
    JSON.stringify({
      cells: [
        {
          cell_type: 'code',
          id: 'mine',
          source: 'mine = 1',
          metadata: {},
          outputs: [],
          execution_count: null
        }
      ],
      metadata: { kernelspec: { name: 'python3', display_name: 'Python 3' } },
      nbformat: 4,
      nbformat_minor: 5
    }),
    'text',
    other
  );
  await panel.send(run.message);
  await expect(outputOf(panel)).toContainText(run.steps[0]);
  await panel.send('insert a cell with `later = 1`');

  await openNotebook(page, other);
  await expect(panel.composer).toBeEnabled();
  await expect(panel.turns).toHaveCount(0);
  await run.go(1);
  // Another session, at the same time, in the notebook in front.
  await panel.ask('insert a cell with `front = 1`');
  await run.go(2);

  await expect
    .poll(async () => (await cellsOf(page, tour)).slice(-2))
    .toEqual([
      {
        source: expect.stringContaining('def step'),
        output: run.output,
        count: 1
      },
      { source: 'later = 1', output: '', count: null }
    ]);
  const shown = [
    { source: 'mine = 1', output: '', count: null },
    { source: 'front = 1', output: '', count: null }
  ];
  expect(await cellsOf(page, other)).toEqual(shown);
  await expect(panel.turns).toHaveCount(1);

  await openNotebook(page, tour);
  await panel.answered(2);
  const folder = folderOf(tmpPath);
  expect(savedCells(join(folder, 'tour.ipynb'))).toEqual(
    await cellsOf(page, tour)
  );
  expect(savedCells(join(folder, 'other.ipynb'))).toEqual(shown);
});

test('the first message does not go past a notebook that is still to connect', async ({
  page,
  tmpPath
}) => {
  // A proxy that takes its time for the connection, as on a busy hub.
  const held: (() => void)[] = [];
  await page.routeWebSocket(/\/prime\/api\/sessions\/.*\/stream/, socket => {
    const early: (string | Buffer)[] = [];
    let server: typeof socket | null = null;
    socket.onMessage(message =>
      server ? server.send(message) : early.push(message)
    );
    held.push(() => {
      server = socket.connectToServer();
      early.forEach(message => server!.send(message));
    });
  });
  await page.reload();
  const panel = await PrimePanel.onExample(page, tmpPath);
  // What Lab knows of the kernel makes the document one with unsaved changes.
  await expect(page.locator('.jp-mod-dirty')).toHaveCount(1);
  const sent = panel.send('delete cell 2');
  await expect.poll(() => held.length).toBe(1);
  held[0]();
  await sent;
  await panel.answered(1);
  await expect(panel.cells).toHaveCount(3);
  expect(savedCells(join(folderOf(tmpPath), 'tour.ipynb'))).toHaveLength(3);
});

test('closed, reloaded or left in the middle of a run: nothing is missing or twice', async ({
  page,
  tmpPath
}) => {
  test.slow();
  page.on('dialog', dialog => dialog.accept());
  const panel = await PrimePanel.onExample(page, tmpPath);
  const tour = `${tmpPath}/tour.ipynb`;
  const file = join(folderOf(tmpPath), 'tour.ipynb');
  const before = await panel.cells.count();

  /** The cell of the run is there once, with all it said, on show and on the disk. */
  const complete = async (run: SteppedRun, count: number): Promise<void> => {
    await expect(panel.cells).toHaveCount(before + count);
    await expect(
      panel.cells.last().locator('.jp-InputArea-prompt')
    ).toContainText(`[${count}]:`);
    const cells = await cellsOf(page, tour);
    expect(cells[before + count - 1]).toMatchObject({
      output: run.output,
      count
    });
    expect(savedCells(file)).toEqual(cells);
    await expect(panel.tools('run_cell')).toHaveCount(count);
  };

  await test.step('the tab is closed, and opened again', async () => {
    const run = new SteppedRun(folderOf(tmpPath), 'tab');
    await panel.send(run.message);
    await expect(outputOf(panel)).toContainText(run.steps[0]);
    await command(page, 'application:close');
    await page
      .getByRole('dialog')
      .getByRole('button', { name: 'Discard' })
      .click();
    await expect(panel.cells).toHaveCount(0);
    await run.go(1);
    await openNotebook(page, tour);
    await expect(outputOf(panel)).toContainText(run.steps[1]);
    await expect(
      panel.cells.last().locator('.jp-InputArea-prompt')
    ).toContainText('[*]:');
    await run.go(2);
    await panel.answered(1);
    await complete(run, 1);
  });

  await test.step('the page is reloaded', async () => {
    const run = new SteppedRun(folderOf(tmpPath), 'reload');
    await panel.send(run.message);
    await expect(outputOf(panel)).toContainText(run.steps[0]);
    await panel.reload();
    await run.go(1);
    await expect(outputOf(panel)).toContainText(run.steps[1]);
    await run.go(2);
    await panel.answered(2);
    await complete(run, 2);
  });

  await test.step('the page is gone when the run ends', async () => {
    const run = new SteppedRun(folderOf(tmpPath), 'gone');
    await panel.send(run.message);
    await expect(outputOf(panel)).toContainText(run.steps[0]);
    await page.evaluate(() => {
      window.location.href = 'about:blank';
    });
    await page.waitForURL('about:blank');
    await run.go(1);
    await run.go(2);
    await page.goto(`tree/${tour}`);
    await panel.open();
    await panel.answered(3);
    await complete(run, 3);
  });

  await test.step('the tab is closed, and the run ends', async () => {
    const run = new SteppedRun(folderOf(tmpPath), 'closed');
    await panel.send(run.message);
    await expect(outputOf(panel)).toContainText(run.steps[0]);
    await command(page, 'application:close');
    await page
      .getByRole('dialog')
      .getByRole('button', { name: 'Save', exact: true })
      .click();
    await expect(panel.cells).toHaveCount(0);
    await run.go(1);
    await run.go(2);
    await expect
      .poll(() => savedCells(file)[before + 3])
      .toMatchObject({ output: run.output, count: 4 });
    await openNotebook(page, tour);
    await panel.open();
    await panel.answered(4);
    await complete(run, 4);
  });
});

/** The panel on the same notebook in another page. */
async function inSecondPage(
  openSecondPage: () => Promise<IJupyterLabPageFixture>,
  path: string
): Promise<PrimePanel> {
  const panel = new PrimePanel(await openSecondPage());
  await openNotebook(panel.page, path);
  await panel.open();
  return panel;
}

test('in two pages: one of them writes, both show the same', async ({
  page,
  tmpPath,
  openSecondPage
}) => {
  test.slow();
  const tour = `${tmpPath}/tour.ipynb`;
  const file = join(folderOf(tmpPath), 'tour.ipynb');
  const one = await PrimePanel.onExample(page, tmpPath);
  const two = await inSecondPage(openSecondPage, tour);
  const second = two.page;
  const before = await one.cells.count();
  // In both, Lab has something to save: what it knows of the kernel.
  await expect(second.locator('.jp-mod-dirty')).toHaveCount(1);

  // A page behind another draws what it shows when it is in front again.
  const same = async (cells: number): Promise<void> => {
    for (const panel of [one, two]) {
      await panel.page.bringToFront();
      await expect(panel.cells).toHaveCount(before + cells);
    }
    await expect
      .poll(() => cellsOf(second, tour))
      .toEqual(await cellsOf(page, tour));
    expect(savedCells(file)).toEqual(await cellsOf(page, tour));
  };

  await test.step('what one asks for, the other shows', async () => {
    await page.bringToFront();
    await one.ask('insert a cell with `first = 1`');
    await same(1);
    await two.answered(1);
    await expect(two.conversation).toContainText('first = 1');
  });

  await test.step('a run that the other has asked for', async () => {
    const run = new SteppedRun(folderOf(tmpPath), 'two');
    await two.send(run.message);
    await expect(two.tools('run_cell')).toHaveAttribute(
      'data-status',
      'running'
    );
    await page.bringToFront();
    await expect(outputOf(one)).toContainText(run.steps[0]);
    await second.bringToFront();
    const prompt = two.cells.last().locator('.jp-InputArea-prompt');
    await expect(prompt).toContainText('[*]:');
    await page.bringToFront();
    await run.go(1);
    await run.go(2);
    await Promise.all([one.answered(2), two.answered(2)]);
    await same(2);
    await expect(prompt).toContainText('[1]:');
    expect(savedCells(file)[before + 1]).toMatchObject({
      output: run.output,
      count: 1
    });
  });

  const dialog = second.getByRole('dialog');

  await test.step('what is typed in the page that does not write is merged with it', async () => {
    await typeInto(second, 2, 'typed = 2');
    await one.ask('insert a cell with `third = 1`');
    await second.bringToFront();
    await expect(two.cells).toHaveCount(before + 3);
    const cells = await cellsOf(second, tour);
    expect(cells[2].source).toBe('typed = 2');
    expect(cells.at(-1)!.source).toBe('third = 1');
    expect(savedCells(file)[2].source).not.toBe('typed = 2');
    // And saved without a question; the writer has it too.
    await command(second, 'docmanager:save');
    await expect.poll(() => savedCells(file)[2].source).toBe('typed = 2');
    await expect(dialog).toHaveCount(0);
    await expect
      .poll(async () => (await cellsOf(page, tour))[2].source)
      .toBe('typed = 2');
    await same(3);
    await page.bringToFront();
    await one.ask('insert a cell with `fourth = 1`');
    await same(4);
  });

  await test.step('the other one writes when the first is closed in the middle of a run', async () => {
    const run = new SteppedRun(folderOf(tmpPath), 'last');
    await second.bringToFront();
    await typeInto(second, 1, 'typed_again = 1');
    await page.bringToFront();
    await one.send(run.message);
    await expect(outputOf(one)).toContainText(run.steps[0]);
    await page.evaluate(() => {
      window.location.href = 'about:blank';
    });
    await second.bringToFront();
    await expect(two.cells).toHaveCount(before + 5);
    await expect(outputOf(two)).toContainText(run.steps[0]);
    await run.go(1);
    await run.go(2);
    await two.answered(5);
    await two.ask('insert a cell with `last = 1`');
    await expect(two.cells).toHaveCount(before + 6);
    const cells = await cellsOf(second, tour);
    expect(cells[1].source).toBe('typed_again = 1');
    expect(cells[before + 4]).toMatchObject({ output: run.output, count: 2 });
    expect(savedCells(file)).toEqual(cells);
    await expect(dialog).toHaveCount(0);
    await expect(second.getByText('could not be merged')).toHaveCount(0);
    await second.close();
  });
});

test('a page that cannot take over the file says so, and loses none of its text', async ({
  page,
  tmpPath,
  openSecondPage
}) => {
  test.slow();
  const tour = `${tmpPath}/tour.ipynb`;
  const file = join(folderOf(tmpPath), 'tour.ipynb');
  const one = await PrimePanel.onExample(page, tmpPath);
  const two = await inSecondPage(openSecondPage, tour);
  const second = two.page;
  await typeInto(second, 1, 'typed = 1');
  const before = await cellsOf(second, tour);

  // Another program writes the file as well, and the first page loads it.
  const notebook = JSON.parse(readFileSync(file, 'utf8'));
  notebook.cells[0].source = 'By another program';
  writeFileSync(file, JSON.stringify(notebook));
  await page.bringToFront();
  await reload(page, tour);
  const run = new SteppedRun(folderOf(tmpPath), 'apart');
  await one.send(run.message);
  await expect(outputOf(one)).toContainText(run.steps[0]);

  await second.bringToFront();
  const notice = second.getByText('could not be merged with it');
  await expect(notice).toHaveCount(1);
  await page.evaluate(() => {
    window.location.href = 'about:blank';
  });
  await run.go(1);
  await run.go(2);
  await two.answered(1);
  await expect(two.tools('run_cell')).toContainText(
    'The output is in the file'
  );
  expect(savedCells(file).at(-1)).toMatchObject({
    output: run.output,
    count: 1
  });
  expect(savedCells(file)[0].source).toBe('By another program');
  expect(await cellsOf(second, tour)).toEqual(before);
  await expect(notice).toHaveCount(1);
  await second.close();
});

test('a session that a program starts writes through the page', async ({
  page,
  tmpPath
}) => {
  const notebook = `${tmpPath}/tour.ipynb`;
  const panel = await PrimePanel.onExample(page, tmpPath);
  await typeInto(page, 1, 'mine = "not saved yet"');
  const started = await page.request.post('/prime/api/sessions', {
    data: { notebook, permission_mode: 'auto' }
  });
  const { id } = await started.json();
  await page.request.post(`/prime/api/sessions/${id}/messages`, {
    data: { text: 'insert a cell with `from_elsewhere = 1`' }
  });
  await panel.answered(1);
  const sources = (await cellsOf(page, notebook)).map(cell => cell.source);
  expect(sources).toContain('mine = "not saved yet"');
  expect(sources).toContain('from_elsewhere = 1');
  expect(
    savedCells(join(folderOf(tmpPath), 'tour.ipynb')).map(cell => cell.source)
  ).toEqual(sources);
});

test.describe('a page that is older than the server', () => {
  /** The part of the plugin that is loaded with the first notebook. */
  const WRITER = /prime_ext\/static\/writer\./;

  test.use({ expectedErrors: [/static\/writer\.|cannot write this/] });

  test('lets nothing be written behind its back', async ({ page, tmpPath }) => {
    await page.route(WRITER, route => route.fulfill({ status: 404 }));
    const panel = await PrimePanel.onExample(page, tmpPath);
    const file = join(folderOf(tmpPath), 'tour.ipynb');
    const before = savedCells(file);
    await panel.composer.fill('insert a cell with `x = 1`');
    await panel.button('Send').click();
    await expect(panel.failure).toContainText('reload the page');
    // What was written is not lost, and goes out behind a reload.
    await expect(panel.composer).toHaveValue(/x = 1/);
    expect(savedCells(file)).toEqual(before);
    await page.unroute(WRITER);
    await panel.reload();
    await panel.button('Send').click();
    await panel.answered(1);
    expect(savedCells(file)).toHaveLength(before.length + 1);
  });
});
