import { IJupyterLabPageFixture, test as galata } from '@jupyterlab/galata';
import { expect, Locator } from '@playwright/test';
import { resolve } from 'node:path';

/** Galata's test, less its mocks of kernels and sessions: they take our doors for Jupyter's. */
export const test = galata.extend({
  kernels: async ({}, use) => {
    await use(null);
  },
  sessions: async ({ request, baseURL }, use) => {
    await use(null);
    const running = await request.get(`${baseURL}/api/sessions`);
    for (const { id } of await running.json()) {
      await request.delete(`${baseURL}/api/sessions/${id}`);
    }
  }
});
export { expect };

const EXAMPLES = resolve(__dirname, '../../examples');

/** The panel, used as a person does: by what it shows and what it is called. */
export class PrimePanel {
  constructor(readonly page: IJupyterLabPageFixture) {}

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
    await page.evaluate(
      path => window.jupyterapp.commands.execute('docmanager:open', { path }),
      `${folder}/tour.ipynb`
    );
    await expect(page.locator('.jp-NotebookPanel .jp-Cell').first()).toBeVisible();
    const panel = new PrimePanel(page);
    await panel.open();
    await panel.root
      .getByRole('combobox', { name: 'Permissions' })
      .selectOption(mode);
    return panel;
  }

  async open(): Promise<void> {
    await this.page.evaluate(() =>
      window.jupyterapp.commands.execute('prime:open')
    );
    await expect(this.composer).toBeEnabled();
  }

  get root(): Locator {
    return this.page.locator('.jp-prime-Panel');
  }

  get composer(): Locator {
    return this.root.getByRole('combobox', { name: 'Message to the agent' });
  }

  get stopButton(): Locator {
    return this.root.getByRole('button', { name: 'Stop', exact: true });
  }

  /** Cards of calls of the tool. */
  tools(name: string): Locator {
    return this.root.locator(`.jp-prime-Tool[data-tool="${name}"]`);
  }

  get banner(): Locator {
    return this.root.locator('.jp-prime-Compaction[data-status="ok"]');
  }

  async send(text: string): Promise<void> {
    await this.composer.fill(text);
    // The first Enter takes a completion where the text is the beginning of a command.
    await this.root.getByRole('button', { name: /^(Send|Queue message)$/ }).click();
    await expect(this.composer).toHaveValue('');
  }

  /** Send and wait until the agent has nothing more to do. */
  async ask(text: string): Promise<void> {
    const turns = await this.turns.count();
    await this.send(text);
    await this.agreeIfAsked(turns);
    await this.answered(turns);
  }

  async answered(turnsBefore: number): Promise<void> {
    await expect(this.turns).toHaveCount(turnsBefore + 1, { timeout: 90_000 });
    await expect(this.stopButton).toBeHidden();
  }

  /** Footers of ended turns. */
  get turns(): Locator {
    return this.root.locator('.jp-prime-Turn');
  }

  /** Agree to the server that messages are sent to, where the panel asks for it. */
  private async agreeIfAsked(turnsBefore: number): Promise<void> {
    const consent = this.root.locator('.jp-prime-Approval').first();
    await expect(consent.or(this.turns.nth(turnsBefore)).first()).toBeVisible({
      timeout: 90_000
    });
    if (await consent.isVisible()) {
      await consent.getByRole('button').first().click();
    }
  }

  /** Run code in a new cell at the end of the notebook, as the user; what it printed. */
  async userRuns(code: string): Promise<string> {
    const { page } = this;
    await page.notebook.addCell('code', code);
    const last = (await page.notebook.getCellCount()) - 1;
    await page.notebook.runCell(last);
    return (await page.notebook.getCellTextOutput(last))?.join('') ?? '';
  }
}

/** A PNG in the outputs of some cell of the notebook in front. */
export function figures(page: IJupyterLabPageFixture): Locator {
  return page.locator(
    '.jp-NotebookPanel:not(.lm-mod-hidden) .jp-OutputArea-output img'
  );
}
