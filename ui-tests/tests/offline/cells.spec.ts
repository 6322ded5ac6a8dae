import type { NotebookPanel } from '@jupyterlab/notebook';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
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

test('the cell that the agent is about to change is changed by the person', async ({
  page,
  tmpPath
}) => {
  test.slow();
  const panel = await PrimePanel.onExample(page, tmpPath, 'ask');
  const tour = `${tmpPath}/tour.ipynb`;
  const sources = async (): Promise<string[]> =>
    (await cellsOf(page, tour)).map(cell => cell.source);
  const card = panel.tools('edit_cell').last();

  /** Meanwhile the agent has read the cell and asks whether it may change it. */
  const edit = async (
    cell: number,
    source: string,
    meanwhile: () => Promise<void>
  ): Promise<void> => {
    const turns = await panel.turns.count();
    await panel.send(`edit cell ${cell} to \`${source}\``);
    const question = panel.root.getByRole('group', {
      name: new RegExp(`^Edit cell ${cell}: `)
    });
    await expect(question).toBeVisible();
    await meanwhile();
    await question.getByRole('button', { name: 'Allow once' }).click();
    await panel.answered(turns + 1);
  };

  await test.step('edited: both sides are shown, and what the person wrote stays', async () => {
    await edit(3, 'agent = 1', () => typeInto(page, 2, 'mine = 1'));
    expect((await sources())[2]).toBe('mine = 1');
    await expect(card.getByRole('img', { name: 'failed' })).toBeVisible();
    await expect(card).toContainText(
      'You changed this cell in the meantime; your version was kept.'
    );
    await expect(card).toContainText('In the notebook');
    await expect(card).toContainText('mine = 1');
    await expect(card).toContainText('agent = 1');
    // The agent knows of it, and says so.
    await expect(
      panel.conversation.locator('.jp-prime-Text').last()
    ).toContainText('it was changed since');
  });

  await test.step('moved: the change goes with it', async () => {
    await edit(3, 'agent = 2', async () => {
      await command(page, 'notebook:move-cell-up');
      await expect.poll(async () => (await sources())[1]).toBe('mine = 1');
    });
    expect((await sources())[1]).toBe('agent = 2');
  });

  await test.step('split: it is not what the agent has read', async () => {
    await typeInto(page, 1, 'left = 1\nright = 1');
    await edit(2, 'agent = 3', async () => {
      await page.evaluate(() => {
        const { content } = window.jupyterapp.shell
          .currentWidget as NotebookPanel;
        content.activeCell!.editor!.setCursorPosition({ line: 1, column: 0 });
      });
      await command(page, 'notebook:split-cell-at-cursor');
      await expect.poll(async () => (await sources())[1]).toBe('left = 1');
    });
    expect((await sources()).slice(1, 3)).toEqual(['left = 1', 'right = 1']);
    await expect(card).toContainText('right = 1');
    await expect(card).toContainText('agent = 3');
  });

  await test.step('deleted: said so, and nothing else is touched', async () => {
    const before = await sources();
    await edit(2, 'agent = 4', async () => {
      await page.evaluate(() => {
        const { content } = window.jupyterapp.shell
          .currentWidget as NotebookPanel;
        content.activeCellIndex = 1;
      });
      await command(page, 'notebook:delete-cell');
      await expect(panel.cells).toHaveCount(before.length - 1);
    });
    expect(await sources()).toEqual(before.filter((_, index) => index !== 1));
    await expect(card).toContainText('There is no such cell');
  });
});

test('the cell that runs is moved, split, edited, deleted, brought back', async ({
  page,
  tmpPath
}) => {
  test.slow();
  const panel = await PrimePanel.onExample(page, tmpPath);
  const tour = `${tmpPath}/tour.ipynb`;
  const file = join(folderOf(tmpPath), 'tour.ipynb');

  /** The cell that runs is the active one, the last of the notebook. */
  const running = async (name: string): Promise<SteppedRun> => {
    const run = new SteppedRun(folderOf(tmpPath), name);
    await panel.send(run.message);
    await expect(outputOf(panel)).toContainText(run.steps[0]);
    await page.evaluate(() => {
      const { content } = window.jupyterapp.shell
        .currentWidget as NotebookPanel;
      content.activeCellIndex = content.widgets.length - 1;
    });
    return run;
  };

  /** Let it run to its end; then one cell alone shows what it said. */
  const finish = async (run: SteppedRun, turns: number): Promise<number> => {
    await run.go(1);
    await run.go(2);
    await panel.answered(turns);
    const cells = await cellsOf(page, tour);
    const showing = cells.filter(cell => cell.output.includes(run.steps[0]));
    expect(showing.map(cell => [cell.output, cell.count])).toEqual([
      [run.output, turns]
    ]);
    expect(savedCells(file)).toEqual(cells);
    return cells.indexOf(showing[0]) - cells.length;
  };

  await test.step('moved', async () => {
    const run = await running('moved');
    await command(page, 'notebook:move-cell-up');
    await expect(outputOf(panel)).toHaveCount(0);
    expect(await finish(run, 1)).toBe(-2);
  });

  await test.step('split', async () => {
    const run = await running('split');
    const cells = await panel.cells.count();
    await page.evaluate(() => {
      const { content } = window.jupyterapp.shell
        .currentWidget as NotebookPanel;
      content.activeCell!.editor!.setCursorPosition({ line: 1, column: 0 });
    });
    await command(page, 'notebook:split-cell-at-cursor');
    await expect(panel.cells).toHaveCount(cells + 1);
    expect(await finish(run, 2)).toBe(-1);
    const [top, bottom] = (await cellsOf(page, tour)).slice(-2);
    expect(top.source).toBe('import pathlib, time');
    expect(bottom.source).toMatch(/^def step/);
  });

  await test.step('edited', async () => {
    const run = await running('edited');
    await typeInto(page, (await panel.cells.count()) - 1, 'mine = 1');
    await finish(run, 3);
    expect((await cellsOf(page, tour)).at(-1)!.source).toBe('mine = 1');
  });

  await test.step('deleted, and brought back', async () => {
    const run = await running('back');
    const cells = await panel.cells.count();
    await command(page, 'notebook:delete-cell');
    await expect(panel.cells).toHaveCount(cells - 1);
    await run.go(1);
    await command(page, 'notebook:undo-cell-action');
    await expect(panel.cells).toHaveCount(cells);
    await finish(run, 4);
  });

  await test.step('deleted for good', async () => {
    const run = await running('deleted');
    const before = await cellsOf(page, tour);
    await command(page, 'notebook:delete-cell');
    await expect(panel.cells).toHaveCount(before.length - 1);
    await run.go(1);
    await run.go(2);
    await panel.answered(5);
    expect(await cellsOf(page, tour)).toEqual(before.slice(0, -1));
    const card = panel.tools('run_cell').last();
    await expect(card).toContainText('The cell was deleted while it ran');
    // All that it said is in the conversation.
    await expect(card.locator('.jp-OutputArea-output')).toContainText(
      run.steps[2]
    );
  });

  await test.step('made a Markdown cell', async () => {
    const run = await running('markdown');
    await command(page, 'notebook:change-cell-to-markdown');
    await run.go(1);
    await run.go(2);
    await panel.answered(6);
    expect((await cellsOf(page, tour)).at(-1)!.output).toBe('');
    const card = panel.tools('run_cell').last();
    await expect(card).toContainText('is a markdown cell by now');
    await expect(card.locator('.jp-OutputArea-output')).toContainText(
      run.steps[2]
    );
  });
});

test('a run is inserted once, and a cell that waits keeps what it shows', async ({
  page,
  tmpPath
}) => {
  test.slow();
  const panel = await PrimePanel.onExample(page, tmpPath);
  const tour = `${tmpPath}/tour.ipynb`;
  const card = panel.tools('run_cell').last();
  const inserted = () =>
    page.evaluate(() => (window as { inserted?: number }).inserted);
  const html = [
    'from IPython.display import HTML',
    "HTML('shown<script>window.inserted = (window.inserted || 0) + 1</script>')"
  ];

  await test.step('a script in an output runs once with each run', async () => {
    await panel.ask(
      ['Insert a cell and run it:', '```python', ...html, '```'].join('\n')
    );
    await expect(outputOf(panel)).toContainText('shown');
    expect(await inserted()).toBe(1);
    await panel.ask(`run cell ${await panel.cells.count()}`);
    await expect(outputOf(panel)).toContainText('shown');
    expect(await inserted()).toBe(2);
  });

  await test.step('the kernel is restarted while it waits behind the person’s', async () => {
    await panel.ask('Insert a cell and run it:\n```python\nprint("mine")\n```');
    const index = (await panel.cells.count()) - 1;
    const before = (await cellsOf(page, tour))[index];
    expect(before.output).toBe('mine\n');
    const run = new SteppedRun(folderOf(tmpPath), 'person');
    const cells = panel.userRuns(run.asked('').split('```')[1].slice(7));
    await run.said(1);
    await panel.send(`run cell ${index + 1}`);
    await expect(card).toContainText('The kernel is busy');
    const prompt = panel.cells.nth(index).locator('.jp-InputArea-prompt');
    await expect(prompt).toContainText('[*]');
    await expect(panel.cells.nth(index)).toContainText('mine');
    await command(page, 'notebook:restart-kernel');
    await page
      .getByRole('dialog')
      .getByRole('button', { name: 'Confirm Kernel Restart' })
      .click();
    await panel.answered(4);
    await cells;
    await expect(card).toContainText(
      'The kernel was restarted before it began with this code.'
    );
    await expect(prompt).toContainText(`[${before.count}]`);
    expect((await cellsOf(page, tour))[index]).toEqual(before);
  });
});

test('the notebook is renamed, moved, and moved outside of Jupyter during runs', async ({
  page,
  tmpPath
}) => {
  test.slow();
  const panel = await PrimePanel.onExample(page, tmpPath);
  const folder = folderOf(tmpPath);
  const start = async (name: string): Promise<SteppedRun> => {
    const run = new SteppedRun(folder, name);
    await panel.send(run.message);
    await expect(outputOf(panel)).toContainText(run.steps[0]);
    return run;
  };
  /** As the file browser does it. */
  const rename = (from: string, to: string): Promise<void> =>
    page.evaluate(
      async ([from, to]) => {
        await window.jupyterapp.serviceManager.contents.rename(from, to);
      },
      [`${tmpPath}/${from}`, `${tmpPath}/${to}`] as const
    );
  const complete = async (
    run: SteppedRun,
    name: string,
    count: number
  ): Promise<void> => {
    await run.go(1);
    await expect(outputOf(panel)).toContainText(run.steps[1]);
    await run.go(2);
    await panel.answered(count);
    const cells = await cellsOf(page, `${tmpPath}/${name}`);
    expect(cells.at(-1)).toMatchObject({ output: run.output, count });
    expect(savedCells(join(folder, name))).toEqual(cells);
  };

  await test.step('renamed', async () => {
    const run = await start('renamed');
    await rename('tour.ipynb', 'renamed.ipynb');
    await expect(panel.conversation).toContainText('renamed.ipynb');
    await complete(run, 'renamed.ipynb', 1);
  });

  await test.step('moved to another folder', async () => {
    await page.contents.createDirectory(`${tmpPath}/sub`);
    const run = await start('moved');
    await rename('renamed.ipynb', 'sub/moved.ipynb');
    await expect(panel.conversation).toContainText('sub/moved.ipynb');
    await complete(run, 'sub/moved.ipynb', 2);
  });

  await test.step('moved outside of Jupyter', async () => {
    const run = await start('outside');
    renameSync(join(folder, 'sub/moved.ipynb'), join(folder, 'away.ipynb'));
    await run.go(1);
    await run.go(2);
    await panel.answered(3);
    // Nothing was lost: what is not on the disk is on show, and the panel says so.
    expect(
      (await cellsOf(page, `${tmpPath}/sub/moved.ipynb`)).at(-1)
    ).toMatchObject({
      output: run.output,
      count: 3
    });
    await expect(panel.tools('run_cell').last()).toContainText(
      'Not saved: the file is no longer there'
    );
    await expect(page.locator('.jp-Dialog')).toHaveCount(0);

    await openNotebook(page, `${tmpPath}/away.ipynb`);
    await expect(panel.turns).toHaveCount(0);
    await panel.session.click();
    await panel.menuItem('Attach a session to this notebook…').click();
    await page
      .getByRole('dialog')
      .getByRole('button', { name: 'Attach' })
      .click();
    await panel.answered(3);
    await panel.ask('insert a cell with `here = 1`');
    await expect(panel.cells.last()).toContainText('here = 1');
    expect(savedCells(join(folder, 'away.ipynb'))).toEqual(
      await cellsOf(page, `${tmpPath}/away.ipynb`)
    );
  });
});

test('a change on the disk is not overwritten, and holds nobody up', async ({
  page,
  tmpPath
}) => {
  test.slow();
  const panel = await PrimePanel.onExample(page, tmpPath);
  const tour = `${tmpPath}/tour.ipynb`;
  const file = join(folderOf(tmpPath), 'tour.ipynb');
  const dialog = page.locator('.jp-Dialog');
  await panel.ask('insert a cell with `first = 1`');

  /** As git would, with the notebook open. */
  const changeOnDisk = (source: string): string => {
    const notebook = JSON.parse(readFileSync(file, 'utf8'));
    notebook.cells[0].source = source;
    const text = JSON.stringify(notebook);
    writeFileSync(file, text);
    return text;
  };

  await test.step('the agent works on, the person is told', async () => {
    const run = new SteppedRun(folderOf(tmpPath), 'beside');
    await panel.send(run.message);
    await expect(outputOf(panel)).toContainText(run.steps[0]);
    const onDisk = changeOnDisk('from git');
    await run.go(1);
    await run.go(2);
    await panel.answered(2);
    expect(readFileSync(file, 'utf8')).toBe(onDisk);
    expect((await cellsOf(page, tour)).at(-1)!.output).toBe(run.output);
    await expect(panel.tools('run_cell').last()).toContainText(
      'Not saved: the file was changed by another program'
    );
    await expect(dialog).toHaveCount(0);
  });

  await test.step('both versions are shown', async () => {
    const notice = page.getByText('could not be merged with it');
    await expect(notice).toHaveCount(1);
    await page.getByRole('button', { name: 'Compare' }).click();
    await expect(dialog).toContainText('# Penguins of the Palmer Archipelago');
    await expect(dialog).toContainText('from git');
    await dialog.getByRole('button', { name: 'Close' }).last().click();
    await expect(dialog).toHaveCount(0);
  });

  await test.step('the version on the disk is taken, and worked on', async () => {
    await command(page, 'docmanager:save');
    await expect(dialog).toContainText('changed on disk');
    await dialog.getByRole('button', { name: 'Revert' }).click();
    await expect(panel.cells.first()).toContainText('from git');
    await panel.ask('insert a cell with `second = 1`');
    await expect(panel.cells.last()).toContainText('second = 1');
    const cells = await cellsOf(page, tour);
    expect(cells[0].source).toBe('from git');
    expect(savedCells(file)).toEqual(cells);
    await expect(panel.tools('insert_cell').last()).not.toContainText(
      'another program'
    );
  });

  await test.step('while Lab asks, the agent goes on', async () => {
    // Otherwise the change would be loaded before the agent begins.
    await typeInto(page, 1, 'typed = 1');
    changeOnDisk('from git again');
    await panel.send('insert a cell with `third = 1`');
    await command(page, 'docmanager:save');
    await expect(dialog).toContainText('changed on disk');
    await panel.answered(4);
    await expect(panel.cells.last()).toContainText('third = 1');
    await dialog.getByRole('button', { name: 'Overwrite' }).click();
    await expect(dialog).toHaveCount(0);
    await expect
      .poll(() => savedCells(file))
      .toEqual(await cellsOf(page, tour));
  });
});

test('what the person does while a change on the disk is loaded is put together with it', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  const tour = `${tmpPath}/tour.ipynb`;
  const file = join(folderOf(tmpPath), 'tour.ipynb');
  await panel.ask('insert a cell with `first = 1`');
  const before = await cellsOf(page, tour);
  await panel.cells.nth(1).evaluate(node => (node.id = 'kept'));

  const notebook = JSON.parse(readFileSync(file, 'utf8'));
  notebook.cells[0].source = 'from git';
  notebook.cells.push({ ...notebook.cells.at(-1), id: 'git', source: 'new' });
  writeFileSync(file, JSON.stringify(notebook));

  const isLoad = (url: URL): boolean =>
    url.pathname.includes('/api/contents/') &&
    url.pathname.endsWith('tour.ipynb') &&
    url.searchParams.get('content') === '1';
  let load = (): void => undefined;
  const loads = new Promise<void>(resolve => (load = resolve));
  let asked = (): void => undefined;
  const isAsked = new Promise<void>(resolve => (asked = resolve));
  await page.route(isLoad, async route => {
    asked();
    await loads;
    await route.fallback();
  });
  await panel.send('insert a cell with `last = 1`');
  await isAsked;
  await typeInto(page, 1, 'typed = 1');
  await command(page, 'notebook:insert-cell-below');
  await expect(panel.cells).toHaveCount(before.length + 1);
  await page.evaluate(() => {
    const { content } = window.jupyterapp.shell.currentWidget as NotebookPanel;
    content.activeCellIndex = 3;
  });
  await command(page, 'notebook:delete-cell');
  await expect(panel.cells).toHaveCount(before.length);
  load();
  await panel.answered(2);

  const cells = await cellsOf(page, tour);
  expect(cells.map(({ source }) => source)).toEqual([
    'from git',
    'typed = 1',
    '',
    ...before.slice(3).map(({ source }) => source),
    'new',
    'last = 1'
  ]);
  await expect(panel.cells.nth(1)).toHaveId('kept');
  expect(savedCells(file)).toEqual(cells);
});
