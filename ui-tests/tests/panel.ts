import AxeBuilder from '@axe-core/playwright';
import {
  galata,
  IJupyterLabPageFixture,
  test as galataTest
} from '@jupyterlab/galata';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { expect, Locator } from '@playwright/test';
import { rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { validateSaved } from './documents';

interface IFixtures {
  /** Opens Lab in a second page of the same browser. */
  openSecondPage: () => Promise<IJupyterLabPageFixture>;
  /** What of the browser's complaints a test provokes itself. */
  expectedErrors: RegExp[];
  /** Fails a test during which the page complained of anything else. */
  noErrors: void;
  /** Fails a test that found a notebook on the disk which is not valid. */
  validNotebooks: void;
}

/**
 * Galata's test, less its mocks of kernels and sessions: they take our doors for Jupyter's. A test
 * finds no kernel and no conversation of another.
 */
export const test = galataTest.extend<IFixtures>({
  // eslint-disable-next-line no-empty-pattern -- Playwright insists on a pattern
  kernels: async ({}, use) => {
    await use(null);
  },
  sessions: async ({ request, baseURL }, use) => {
    // Before, not after: what a test that failed leaves behind tells why.
    const running = await request.get(`${baseURL}/api/sessions`);
    for (const { id } of await running.json()) {
      await request.delete(`${baseURL}/api/sessions/${id}`);
    }
    const kept = await request.get(`${baseURL}/prime/api/sessions`);
    for (const { id } of (await kept.json()).sessions) {
      await request.delete(`${baseURL}/prime/api/sessions/${id}`);
    }
    await use(null);
  },
  // Behind a reload a notebook is in front, not the launcher that Galata waits for.
  // eslint-disable-next-line no-empty-pattern -- Playwright insists on a pattern
  waitForApplication: async ({}, use) => {
    await use(async page => {
      await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
    });
  },
  openSecondPage: async (
    { page, baseURL, tmpPath, waitForApplication },
    use
  ) => {
    await use(async () =>
      galata.initTestPage(
        // The workspace of the first page is taken; Lab would leave it and load again.
        '/lab/workspaces/second',
        true,
        baseURL!,
        true,
        galata.DEFAULT_SETTINGS,
        true,
        true,
        await page.context().newPage(),
        null,
        null,
        tmpPath,
        waitForApplication,
        null,
        false
      )
    );
  },
  expectedErrors: [[], { option: true }],
  noErrors: [
    async ({ page, expectedErrors }, use) => {
      const errors: string[] = [];
      page.on('console', message => {
        const text = `${message.text()} (${message.location().url})`;
        if (message.type() === 'error' && /prime/i.test(text)) {
          errors.push(text);
        }
      });
      page.on('pageerror', error => errors.push(error.stack ?? String(error)));
      await use();
      expect(
        errors.filter(text => !expectedErrors.some(known => known.test(text)))
      ).toEqual([]);
    },
    { auto: true }
  ],
  validNotebooks: [
    // eslint-disable-next-line no-empty-pattern -- Playwright insists on a pattern
    async ({}, use) => {
      await use();
      validateSaved();
    },
    { auto: true }
  ]
});
export { expect };

/** What the panel says where the variables are safe; other tools look for these words. */
export const BANNER = '[compaction] context reduced, kernel state preserved';

/** Cells of the example notebook; Lab draws them one by one. */
const EXAMPLE_CELLS = 4;

const EXAMPLES = resolve(__dirname, '../../examples');

/** The panel, used as a person does: by what it shows and what it is called. */
export class PrimePanel {
  constructor(readonly page: IJupyterLabPageFixture) {
    page.on('requestfinished', request => {
      if (request.method() === 'PUT' && /\/workspaces\//.test(request.url())) {
        this._saved = request.postData() ?? '';
      }
    });
  }

  /**
   * Put the example notebook and its data where the test works, open it and the panel.
   */
  static async onExample(
    page: IJupyterLabPageFixture,
    folder: string,
    mode: 'ask' | 'edit' | 'auto' | 'plan' = 'auto'
  ): Promise<PrimePanel> {
    for (const name of ['tour.ipynb', 'penguins.csv']) {
      await page.contents.uploadFile(
        resolve(EXAMPLES, name),
        `${folder}/${name}`
      );
    }
    const panel = new PrimePanel(page);
    await page.evaluate(async path => {
      await window.jupyterapp.commands.execute('docmanager:open', { path });
    }, `${folder}/tour.ipynb`);
    await expect(panel.cells).toHaveCount(EXAMPLE_CELLS);
    await panel.open();
    await panel.permissions.selectOption(mode);
    return panel;
  }

  /** Show the panel and wait until it can be written in. */
  async open(): Promise<void> {
    await expect(this.cells.first()).toBeVisible();
    await this.page.evaluate(() =>
      window.jupyterapp.commands.execute('prime:open')
    );
    await expect(this.composer).toBeEnabled();
  }

  /** Reload the page and wait until the notebook is back, and the panel can be written in. */
  async reload(): Promise<void> {
    const path = await this.page.evaluate(() => {
      const { context } = window.jupyterapp.shell
        .currentWidget as NotebookPanel;
      return context.path;
    });
    // What Lab has not saved of its layout it does not bring back.
    await expect.poll(() => this._savedLayout).toContain(`notebook:${path}`);
    await this.page.reload();
    await this.open();
  }

  /** Wait until Lab, which takes its time, has saved this for the next time that it is opened. */
  async remembered(text: string): Promise<void> {
    await expect.poll(() => this._saved).toContain(text);
  }

  get root(): Locator {
    return this.page.locator('.jp-prime-Panel');
  }

  get composer(): Locator {
    return this.root.getByRole('textbox', { name: 'Message to the agent' });
  }

  /** The composer with what belongs to it. */
  get composerBox(): Locator {
    return this.root.locator('.jp-prime-Composer');
  }

  get permissions(): Locator {
    return this.root.getByRole('combobox', { name: 'Permissions' });
  }

  get stopButton(): Locator {
    return this.button('Stop');
  }

  /** The button that shows the session, and opens the list of them. */
  get session(): Locator {
    return this.root.getByRole('button', { name: /^Session: / });
  }

  /** Which model answers. */
  get model(): Locator {
    return this.root.getByRole('button', { name: /^Model: / });
  }

  /** Everything that was said. */
  get conversation(): Locator {
    return this.root.getByRole('log');
  }

  /** Cards of calls of the tool. */
  tools(name: string): Locator {
    return this.root.locator(`.jp-prime-Tool[data-tool="${name}"]`);
  }

  /** Compactions that worked. */
  get banner(): Locator {
    return this.root.locator('.jp-prime-Compaction[data-status="ok"]');
  }

  /** What went wrong, with what to do about it. */
  get failure(): Locator {
    return this.root.locator('.jp-prime-Failure');
  }

  /** Footers of ended turns. */
  get turns(): Locator {
    return this.root.locator('.jp-prime-Turn');
  }

  /** A question before content leaves the machine. */
  get consent(): Locator {
    return this.root.getByRole('group', { name: /^Send this conversation/ });
  }

  /** Cells of the notebook in front. */
  get cells(): Locator {
    return this.page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell');
  }

  /** Figures in the outputs of the notebook in front. */
  get figures(): Locator {
    return this.cells.locator('.jp-OutputArea-output img');
  }

  button(name: string): Locator {
    return this.root.getByRole('button', { name, exact: true });
  }

  /** An entry of the menu that is open. */
  menuItem(name: string | RegExp): Locator {
    return this.page.locator('.jp-prime-Menu').getByRole('menuitem', { name });
  }

  async send(text: string): Promise<void> {
    await this.composer.fill(text);
    await this.root
      .getByRole('button', { name: /^(Send|Queue message)$/ })
      .click();
    await expect(this.composer).toHaveValue('');
  }

  /** Send and wait until the agent has nothing more to do; agree to the server if asked. */
  async ask(text: string): Promise<void> {
    const turns = await this.turns.count();
    await this.send(text);
    const ended = this.turns.nth(turns);
    await expect(this.consent.or(ended).first()).toBeVisible({
      timeout: 60_000
    });
    if (await this.consent.isVisible()) {
      await this.consent
        .getByRole('button', { name: 'Send', exact: true })
        .click();
    }
    await this.answered(turns + 1);
  }

  /** Wait until that many turns have ended and none runs. */
  async answered(turns: number): Promise<void> {
    await expect(this.turns).toHaveCount(turns, { timeout: 60_000 });
    await expect(this.stopButton).toBeHidden();
  }

  /** Run code in a new cell at the end of the notebook, as the user; what it printed. */
  async userRuns(code: string): Promise<string> {
    await this.page.evaluate(async code => {
      const { commands, shell } = window.jupyterapp;
      const { content: notebook, sessionContext } =
        shell.currentWidget as NotebookPanel;
      // What is run before the kernel answers is dropped.
      await sessionContext.ready;
      await sessionContext.session?.kernel?.info;
      notebook.activeCellIndex = notebook.widgets.length - 1;
      await commands.execute('notebook:insert-cell-below');
      notebook.activeCell!.model.sharedModel.setSource(code);
      await commands.execute('notebook:run-cell');
    }, code);
    return this.cells.last().locator('.jp-OutputArea-output').innerText();
  }

  private get _savedLayout(): string {
    const { data } = JSON.parse(this._saved || '{}');
    return JSON.stringify(data?.['layout-restorer:data'] ?? '');
  }

  /** What Lab saved last for the next time that it is opened. */
  private _saved = '';
}

/** The panel keeps the rules of WCAG 2.2 A and AA. */
export async function accessible(page: IJupyterLabPageFixture): Promise<void> {
  const { violations } = await new AxeBuilder({ page })
    .include('.jp-prime-Panel')
    .withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'])
    .analyze();
  expect(
    violations.map(({ id, nodes }) => ({
      id,
      nodes: nodes.map(({ html, failureSummary }) => [html, failureSummary])
    }))
  ).toEqual([]);
}

/** As if nobody had agreed to the server yet: a run before may have left it so. */
export function forgetConsent(): void {
  const data = join(process.env.PRIME_TEST_STATE!, 'remote', 'data');
  rmSync(join(data, 'prime', 'consent.json'), { force: true });
}
