import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { personOf } from '../../environment';
import { folderOf, openNotebook } from '../documents';
import { expect, PrimePanel, test } from '../panel';

/** Cells of all kinds, one of which was run before, elsewhere. */
const NOTEBOOK = {
  cells: [
    { cell_type: 'markdown', id: 'title', metadata: {}, source: '# Title' },
    code('import', 'import sys\nimport pandas as pd'),
    code('old', 'print("of before")', {
      execution_count: 7,
      metadata: { tags: ['kept'], mine: { deep: [1] } },
      outputs: [
        { output_type: 'stream', name: 'stdout', text: ['of before\n'] },
        {
          output_type: 'display_data',
          data: { 'text/html': ['<b>old</b>'], 'text/plain': ['old'] },
          metadata: {}
        }
      ]
    }),
    code('draft', 'draft'),
    code(
      'bar',
      [
        'for step in range(300):',
        '    print(f"\\r{step} of 300", end="", flush=True)',
        '    if step == 150:',
        '        print("half of it", file=sys.stderr, flush=True)'
      ].join('\n')
    ),
    code('frame', 'pd.DataFrame({"a": [1, 2], "b": ["x", "ü"]})'),
    code('figure', 'pd.Series([1, 3, 2]).plot();'),
    code('gone', 'never'),
    code('fails', 'def f(x):\n    return 1 / x\n\nf(0)')
  ],
  metadata: {
    kernelspec: {
      display_name: 'Python 3 (ipykernel)',
      language: 'python',
      name: 'python3'
    },
    language_info: { name: 'python' }
  },
  nbformat: 4,
  nbformat_minor: 5
};

const TASKS = [
  'run cell 2',
  'edit cell 4 to `made_by = "the agent"`',
  'run cell 4',
  'run cell 5',
  'run cell 6',
  'run cell 7',
  'delete cell 8',
  'move cell 1 to the end',
  'add a markdown cell after cell 2 with `*Not the end*`',
  'add a cell with `made_by * 2` and run it',
  'run cell 8'
].join('; then ');

test('open, closed or without a browser: the same run makes the same cells', async ({
  page,
  tmpPath
}) => {
  test.slow();
  for (const name of ['open', 'closed', 'headless']) {
    await page.contents.uploadContent(
      JSON.stringify(NOTEBOOK),
      'text',
      `${tmpPath}/${name}.ipynb`
    );
  }
  const panel = await PrimePanel.onExample(page, tmpPath);

  const headless = promisify(execFile)(
    'jupyter',
    ['prime', 'run', 'headless.ipynb', TASKS, '--yes', '--model', 'offline'],
    { cwd: folderOf(tmpPath), env: { ...process.env, ...personOf('offline') } }
  );
  const created = await page.request.post('/prime/api/sessions', {
    data: { notebook: `${tmpPath}/closed.ipynb`, permission_mode: 'auto' }
  });
  const closed = `/prime/api/sessions/${(await created.json()).id}`;
  await page.request.post(`${closed}/messages`, { data: { text: TASKS } });

  await openNotebook(page, `${tmpPath}/open.ipynb`);
  await panel.open();
  await panel.permissions.selectOption('auto');
  await panel.send(TASKS);
  await expect(panel.turns).toHaveCount(1, { timeout: 120_000 });
  await expect
    .poll(
      async () => (await (await page.request.get(closed)).json()).state.running,
      { timeout: 120_000 }
    )
    .toBe(false);
  await headless;

  const made = cells('open');
  expect(
    made.map(({ id, execution_count, outputs }) => [
      id,
      execution_count ?? null,
      outputs?.length ?? 0
    ])
  ).toEqual([
    ['import', 1, 0],
    ['old', 7, 2],
    ['new-2', null, 0],
    ['draft', 2, 0],
    ['bar', 3, 3],
    ['frame', 4, 1],
    ['figure', 5, 1],
    ['fails', 7, 1],
    ['title', null, 0],
    ['new-9', 6, 1]
  ]);
  expect(cells('closed')).toEqual(made);
  expect(cells('headless')).toEqual(made);
  expect(await trusted('closed')).toEqual(await trusted('open'));
  expect(await trusted('headless')).toEqual(await trusted('open'));

  /** As on the disk; ids that a run has made up by the order of the cells. */
  function cells(name: string): any[] {
    const known = NOTEBOOK.cells.map(cell => cell.id);
    return JSON.parse(
      readFileSync(join(folderOf(tmpPath), `${name}.ipynb`), 'utf8')
    ).cells.map((cell: any, index: number) => ({
      ...cell,
      id: known.includes(cell.id) ? cell.id : `new-${index}`
    }));
  }

  /** Which cells a browser would trust. */
  async function trusted(name: string): Promise<(boolean | undefined)[]> {
    const answer = await page.request.get(
      `/api/contents/${tmpPath}/${name}.ipynb`
    );
    return (await answer.json()).content.cells.map(
      (cell: any) => cell.metadata.trusted
    );
  }
});

function code(id: string, source: string, more: object = {}) {
  return {
    cell_type: 'code',
    id,
    metadata: {},
    source,
    execution_count: null,
    outputs: [],
    ...more
  };
}
