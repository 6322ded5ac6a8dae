import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { expect, Locator } from '@playwright/test';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PrimePanel } from './panel';

/** A cell: its source, what it shows, and its number. */
export interface ICell {
  source: string;
  output: string;
  count: number | null;
}

/** Where the test's files are on the disk. */
export function folderOf(
  tmpPath: string,
  server: 'offline' | 'remote' = 'offline'
): string {
  return join(process.env.PRIME_TEST_STATE!, server, 'root', tmpPath);
}

/** Cells of a notebook that is open in the page, in front or not. */
export function cellsOf(
  page: IJupyterLabPageFixture,
  path: string
): Promise<ICell[]> {
  return page.evaluate(path => {
    for (const widget of window.jupyterapp.shell.widgets('main')) {
      const { context } = widget as NotebookPanel;
      if (context?.localPath === path) {
        return context.model.sharedModel.cells.map(cell => {
          const { source, outputs, execution_count } = cell.toJSON() as any;
          return {
            source: [source].flat().join(''),
            output: (outputs ?? [])
              .flatMap((output: any) => output.text ?? output.ename ?? '')
              .join(''),
            count: execution_count ?? null
          };
        });
      }
    }
    throw new Error(`${path} is not open.`);
  }, path);
}

const saved = new Set<string>();

/**
 * Cells of a notebook on the disk; none of one that Jupyter is writing at this moment. What it held
 * is validated when the test ends.
 */
export function savedCells(file: string): ICell[] {
  const text = readFileSync(file, 'utf8');
  if (!text.trimEnd().endsWith('}')) {
    return [];
  }
  saved.add(text);
  return JSON.parse(text).cells.map((cell: any) => ({
    source: [cell.source].flat().join(''),
    output: (cell.outputs ?? [])
      .flatMap((output: any) => output.text ?? output.ename ?? '')
      .join(''),
    count: cell.execution_count ?? null
  }));
}

/** Validate what notebooks held on the disk, all in one process: nbformat takes long to load. */
export function validateSaved(): void {
  const texts = [...saved];
  saved.clear();
  if (texts.length > 0) {
    const program = [
      'import json, nbformat, sys',
      'for text in json.load(sys.stdin):',
      '    nbformat.validate(nbformat.reads(text, nbformat.NO_CONVERT))'
    ].join('\n');
    execFileSync('python', ['-W', 'error', '-c', program], {
      input: JSON.stringify(texts)
    });
  }
}

/** What the last cell of the notebook in front shows. */
export function outputOf(panel: PrimePanel): Locator {
  return panel.cells.last().locator('.jp-OutputArea-output');
}

export function openNotebook(
  page: IJupyterLabPageFixture,
  path: string
): Promise<void> {
  return page.evaluate(async path => {
    const panel: NotebookPanel = await window.jupyterapp.commands.execute(
      'docmanager:open',
      { path }
    );
    await panel.context.ready;
  }, path);
}

/** Load the file again, as JupyterLab's _Reload from Disk_ does. */
export function reload(
  page: IJupyterLabPageFixture,
  path: string
): Promise<void> {
  return page.evaluate(async path => {
    for (const widget of window.jupyterapp.shell.widgets('main')) {
      const { context } = widget as NotebookPanel;
      if (context?.localPath === path) {
        await context.revert();
      }
    }
  }, path);
}

export function command(
  page: IJupyterLabPageFixture,
  id: string
): Promise<void> {
  return page.evaluate(id => {
    // Some answer only when the dialog that they open is closed.
    void window.jupyterapp.commands.execute(id);
  }, id);
}

/** The person types into a cell of the notebook in front, by its place from 0. */
export function typeInto(
  page: IJupyterLabPageFixture,
  index: number,
  source: string
): Promise<void> {
  return page.evaluate(
    ([index, source]) => {
      const { content } = window.jupyterapp.shell
        .currentWidget as NotebookPanel;
      content.activeCellIndex = index;
      content.widgets[index].model.sharedModel.setSource(source);
    },
    [index, source] as const
  );
}

/**
 * Code in steps, each behind a gate: it says what the step is called, then that it has said so,
 * and goes on when the test lets it. The kernel works in the folder of the notebook.
 */
export class SteppedRun {
  /**
   * @param _deaf - The code ignores interrupts.
   */
  constructor(
    private readonly _folder: string,
    private readonly _name: string,
    private readonly _deaf = false
  ) {}

  get code(): string {
    return [
      'import pathlib, time',
      ...(this._deaf
        ? ['import signal', 'signal.signal(signal.SIGINT, signal.SIG_IGN)']
        : []),
      'def step(name, after=None):',
      '    while after and not pathlib.Path(after).exists():',
      '        time.sleep(0.02)',
      '    print(name, flush=True)',
      '    pathlib.Path(f"{name}.said").touch()'
    ].join('\n');
  }

  /** What the agent is asked for. */
  get message(): string {
    return this.asked('Insert a cell and run it:');
  }

  /** The code, with what is to be done with it. */
  asked(what: string): string {
    const [one, two, three] = this.steps;
    return [
      what,
      '```python',
      this.code,
      `step("${one}")`,
      `step("${two}", after="${one}.go")`,
      `step("${three}", after="${two}.go")`,
      '```'
    ].join('\n');
  }

  get steps(): string[] {
    return [1, 2, 3].map(step => `${this._name}-${step}`);
  }

  /** All that the cell shows at the end. */
  get output(): string {
    return this.steps.map(step => `${step}\n`).join('');
  }

  /** Let the code go on behind the step, from 1, and wait until the next is done. */
  async go(step: 1 | 2): Promise<void> {
    this.open(step);
    await this.said(step + 1);
  }

  /** Open the gate behind the step. */
  open(step: number): void {
    writeFileSync(join(this._folder, `${this.steps[step - 1]}.go`), '');
  }

  /** Wait until the code has come to the step, whoever can see that. */
  async said(step: number): Promise<void> {
    const file = join(this._folder, `${this.steps[step - 1]}.said`);
    await expect.poll(() => existsSync(file)).toBe(true);
  }
}
