import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cellsOf, command, openNotebook, typeInto } from '../documents';
import { expect, PrimePanel, test } from '../panel';

test.beforeEach(async ({ page }) => {
  const plugins = await page.evaluate(() =>
    window.jupyterapp
      .listPlugins()
      .filter(id => id.startsWith('@jupyter/docprovider-extension:'))
  );
  expect(plugins, 'jupyter-collaboration is there').not.toEqual([]);
});

test('two people, one agent: all see the same, a conflict is told, a turn is undone', async ({
  page,
  tmpPath,
  openSecondPage
}) => {
  // Two pages in one browser, on a machine that may be busy.
  test.slow();
  const tour = `${tmpPath}/tour.ipynb`;
  const one = await PrimePanel.onExample(page, tmpPath);
  const second = await openSecondPage();
  const two = new PrimePanel(second);
  await openNotebook(second, tour);
  await expect(two.cells).toHaveCount(4);

  /** Both show these cells, and the file has them. */
  const all = async (sources: (string | RegExp)[]): Promise<void> => {
    for (const shown of [page, second]) {
      await expect
        .poll(async () => (await cellsOf(shown, tour)).map(c => c.source))
        .toEqual(sources.map(s => expect.stringMatching(s)));
    }
    await expect
      .poll(() => saved(tmpPath).map(cell => cell.source))
      .toEqual(sources.map(s => expect.stringMatching(s)));
  };
  const intro = [/^# Penguins/, /^## Start/];
  const rest = [/^## Your analysis/];

  await test.step('a cell is inserted and run', async () => {
    await one.ask('insert a cell with `print(6 * 7)` and run it');
    await all([...intro, /^import/, ...rest, /^print\(6 \* 7\)$/]);
    for (const panel of [one, two]) {
      await expect(
        panel.cells.last().locator('.jp-OutputArea-output')
      ).toHaveText('42');
      await expect(
        panel.cells.last().locator('.jp-InputArea-prompt')
      ).toContainText('[1]:');
    }
    await expect
      .poll(() => saved(tmpPath).at(-1).outputs)
      .toMatchObject([{ text: '42\n' }]);
    await expect(one.conversation).not.toContainText('not saved');
  });

  await test.step('the other types into the cell that is to be edited', async () => {
    await one.permissions.selectOption('ask');
    await one.send('edit cell 3 to `agent = 1`');
    const question = one.root.getByRole('group', { name: /edit/i });
    await expect(question).toBeVisible();
    await typeInto(second, 2, 'other = 2');
    await expect(one.cells.nth(2)).toContainText('other = 2');
    await question.getByRole('button', { name: 'Allow once' }).click();
    await one.answered(2);
    const card = one.tools('edit_cell');
    await expect(card).toContainText('other = 2');
    await expect(card).toContainText('agent = 1');
    await all([...intro, /^other = 2$/, ...rest, /^print/]);
    await one.permissions.selectOption('auto');
  });

  await test.step('a turn is taken back, in both', async () => {
    await one.ask('edit cell 3 to `agent = 1`');
    await all([...intro, /^agent = 1$/, ...rest, /^print/]);
    await typeInto(second, 4, 'print("typed meanwhile")');
    await one.button('Revert this turn’s edits').last().click();
    await expect(one.conversation).toContainText('1 cell reverted');
    await all([
      ...intro,
      /^other = 2$/,
      ...rest,
      /^print\("typed meanwhile"\)$/
    ]);
  });

  await test.step('the other writes for the agent when the first is gone', async () => {
    await two.open();
    await two.answered(3);
    await page.evaluate(() => {
      window.location.href = 'about:blank';
    });
    await two.ask('delete cell 5');
    await expect(two.cells).toHaveCount(4);
    await expect.poll(() => saved(tmpPath).length).toBe(4);
  });
});

test('closed a moment ago, the document lives on: what was typed last and the agent’s are both there', async ({
  page,
  tmpPath
}) => {
  const tour = `${tmpPath}/tour.ipynb`;
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask('/help');
  const { sessions } = await (
    await page.request.get('/prime/api/sessions')
  ).json();
  const session = `/prime/api/sessions/${sessions[0].id}`;

  // The shared document is not saved yet when the agent begins.
  await typeInto(page, 2, 'typed = "last"');
  await command(page, 'application:close');
  await page
    .getByRole('dialog')
    .getByRole('button', { name: 'Discard' })
    .click();
  await expect(panel.cells).toHaveCount(0);
  await page.request.post(`${session}/messages`, {
    data: {
      text:
        'run cell 3; then add a cell with `typed * 2` and run it; ' +
        'then move cell 1 to the end; then edit cell 1 to `Begin ü here`'
    }
  });
  await expect
    .poll(
      async () => {
        const { state } = await (await page.request.get(session)).json();
        return state.running;
      },
      { timeout: 60_000 }
    )
    .toBe(false);

  const expected = [
    ['Begin ü here', null, ''],
    ['typed = "last"', 1, ''],
    [expect.stringMatching(/^## Your/), null, ''],
    ['typed * 2', 2, "'lastlast'"],
    [expect.stringMatching(/^# Penguins/), null, '']
  ];
  await expect
    .poll(() =>
      saved(tmpPath).map(cell => [
        cell.source,
        cell.execution_count ?? null,
        (cell.outputs ?? [])
          .map((output: any) => output.data['text/plain'])
          .join('')
      ])
    )
    .toEqual(expected);
  await openNotebook(page, tour);
  await expect(panel.cells).toHaveCount(5);
  const shown = await cellsOf(page, tour);
  expect(shown.map(({ source, count }) => [source, count])).toEqual(
    expected.map(([source, count]) => [source, count])
  );
  await expect(panel.cells.nth(3)).toContainText("'lastlast'");
});

/** Cells on the disk, long texts in one piece. */
function saved(tmpPath: string): any[] {
  const file = join(
    process.env.PRIME_TEST_STATE!,
    'collaboration',
    'root',
    tmpPath,
    'tour.ipynb'
  );
  const text = (value: string | string[]): string => [value].flat().join('');
  return JSON.parse(readFileSync(file, 'utf8')).cells.map((cell: any) => ({
    ...cell,
    source: text(cell.source),
    outputs: (cell.outputs ?? []).map((output: any) =>
      output.output_type === 'stream'
        ? { ...output, text: text(output.text) }
        : output.output_type === 'error'
          ? { ...output, data: {} }
          : {
              ...output,
              data: { 'text/plain': text(output.data['text/plain']) }
            }
    )
  }));
}
