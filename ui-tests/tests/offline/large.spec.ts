import { galata } from '@jupyterlab/galata';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { folderOf, openNotebook, typeInto } from '../documents';
import { expect, PrimePanel, test } from '../panel';

const LINES = `
import pathlib, time
for number in range(10_000):
    print(f'line {number} ' + '.' * 40)
step = 0
while not pathlib.Path('go').exists():
    print(f'\\rstep {step}', end='')
    step += 1
    time.sleep(0.01)
print('\\rdone in the end')
`;

const FIGURES = `
import matplotlib.pyplot as plt
for number in range(50):
    plt.figure(figsize=(3, 2))
    plt.title(f'figure {number}')
    plt.show()
`;

// On a machine that is busy, a page with so much in it takes its time.
test.slow();

function inCell(code: string): string {
  return `Insert a cell and run it:\n\`\`\`python\n${code.trim()}\n\`\`\``;
}

/** Cells of the notebook on the disk. */
function saved(tmpPath: string, name = 'tour.ipynb'): any[] {
  return JSON.parse(readFileSync(join(folderOf(tmpPath), name), 'utf8')).cells;
}

/** What the tool's last call has answered the model with. */
async function answer(panel: PrimePanel, tool: string): Promise<any[]> {
  const { request } = panel.page;
  const { sessions } = await (await request.get('/prime/api/sessions')).json();
  const { records } = await (
    await request.get(`/prime/api/sessions/${sessions[0].id}/records`)
  ).json();
  return records
    .filter((r: any) => r.kind === 'tool_result' && r.name === tool)
    .pop().content;
}

test('10,000 lines and a progress bar: one types on, all is kept, the agent is given both ends', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  const cell = panel.cells.last();
  await panel.send(inCell(LINES));
  await expect(cell.locator('.jp-OutputArea-output')).toContainText('step', {
    timeout: 60_000
  });
  const run = panel.tools('run_cell');
  await run.getByRole('button').first().click();

  await test.step('while it runs, what is typed appears at once', async () => {
    for (const word of ['one', 'two']) {
      await panel.composer.focus();
      await page.keyboard.type(`${word} `);
      await expect(panel.composer).toHaveValue(new RegExp(`${word} $`));
      await panel.cells.nth(2).locator('.cm-content').click();
      await page.keyboard.type(`# ${word}`);
      await expect(panel.cells.nth(2)).toContainText(`# ${word}`);
    }
    await expect(cell.locator('.jp-InputArea-prompt')).toContainText('[*]:');
    await expect(run).toContainText('step');
  });

  writeFileSync(join(folderOf(tmpPath), 'go'), '');
  await panel.answered(1);
  const [output, ...others] = saved(tmpPath).at(-1).outputs;
  expect(others).toEqual([]);
  const lines = [output.text].flat().join('').split('\n');
  expect(lines.slice(0, 10_000).map(line => line.split(' ')[1])).toEqual(
    Array.from({ length: 10_000 }, (_, number) => String(number))
  );
  expect(lines.slice(10_000)).toEqual(['done in the end', '']);

  // The card has no more of it than one would look at, in no more room than others.
  await expect(run).toContainText('characters left out');
  await expect(run).toContainText('done in the end');
  const card = run.locator('.jp-prime-Outputs');
  expect((await card.boundingBox())!.height).toBeLessThan(500);
  expect((await card.textContent())!.length).toBeLessThan(250_000);

  const [{ text }] = await answer(panel, 'run_cell');
  expect(text).toContain('line 0 .');
  expect(text).toContain('left out here; the full text is in');
  expect(text).toContain('done in the end');
  expect(text.length).toBeLessThan(60_000);
  await expect(panel.composer).toHaveValue('one two ');
});

test('50 figures: all in the notebook, some for the agent, few in the panel', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.send(inCell(FIGURES));
  await panel.answered(1);
  expect(
    saved(tmpPath)
      .at(-1)
      .outputs.map((output: any) => Object.keys(output.data))
  ).toEqual(Array(50).fill(['image/png', 'text/plain']));
  await expect(panel.figures).toHaveCount(50);

  const content = await answer(panel, 'run_cell');
  expect(content.filter(({ type }) => type === 'image')).toHaveLength(20);
  expect(content[0].text).toContain('[image 20]');
  expect(content[0].text).toContain('30 more images');

  const run = panel.tools('run_cell');
  await run.getByRole('button').first().click();
  const card = run.locator('.jp-prime-Outputs');
  await expect(card.locator('img').first()).toBeVisible();
  expect((await card.boundingBox())!.height).toBeLessThan(500);
  expect(await card.locator('img').count()).toBeLessThanOrEqual(20);
});

test.describe('a long notebook', () => {
  // Lab draws what is on show; otherwise it draws cell by cell, when it has nothing else to do.
  test.use({
    mockSettings: {
      ...galata.DEFAULT_SETTINGS,
      '@jupyterlab/notebook-extension:tracker': { windowingMode: 'full' }
    }
  });

  test('1,000 cells: one of them is edited and run, the others stay', async ({
    page,
    tmpPath
  }) => {
    const cells = Array.from({ length: 1_000 }, (_, index) => ({
      cell_type: index % 10 ? 'code' : 'markdown',
      id: `cell-${index + 1}`,
      metadata: { tags: [`tag-${index % 7}`] },
      source: index % 10 ? `x_${index} = ${index}` : `# Part ${index}`,
      ...(index % 10
        ? {
            execution_count: index,
            outputs: [
              { output_type: 'stream', name: 'stdout', text: `${index}\n` }
            ]
          }
        : {})
    }));
    await page.contents.uploadContent(
      JSON.stringify({
        cells,
        metadata: {
          kernelspec: { display_name: 'Python 3 (ipykernel)', name: 'python3' }
        },
        nbformat: 4,
        nbformat_minor: 5
      }),
      'text',
      `${tmpPath}/long.ipynb`
    );
    const panel = await PrimePanel.onExample(page, tmpPath);
    await openNotebook(page, `${tmpPath}/long.ipynb`);
    await panel.open();
    await panel.ask('edit cell 990 to `print(6 * 7)`');
    await panel.ask('run cell 990');

    // The cell that was changed is on show.
    const shown = page.locator('.jp-Cell[data-windowed-list-index="989"]');
    await expect(shown.locator('.jp-OutputArea-output')).toHaveText('42');
    await expect(shown).toBeInViewport();
    const total = await page.evaluate(
      () =>
        (window.jupyterapp.shell.currentWidget as NotebookPanel).content.widgets
          .length
    );
    expect(total).toBe(1_000);
    const expected = structuredClone(cells) as any[];
    expected[989] = {
      ...expected[989],
      source: 'print(6 * 7)',
      execution_count: 1,
      outputs: [{ output_type: 'stream', name: 'stdout', text: '42\n' }]
    };
    expect(
      saved(tmpPath, 'long.ipynb').map(cell => ({
        ...cell,
        source: [cell.source].flat().join(''),
        ...(cell.outputs && {
          outputs: cell.outputs.map((output: any) => ({
            ...output,
            text: [output.text].flat().join('')
          }))
        })
      }))
    ).toEqual(expected);

    // The user can go on typing in it.
    await typeInto(page, 989, 'print(43)');
    await expect(shown).toContainText('print(43)');
  });
});
