import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { Locator } from '@playwright/test';
import { accessible, expect, PrimePanel, test } from '../panel';

test('mentions by keyboard: chips, what the model gets, and after a reload', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  const { keyboard } = page;
  await panel.userRuns(
    "import pandas as pd\npenguins = pd.read_csv('penguins.csv')\nprint('read')"
  );
  await panel.composer.focus();
  const options = panel.root
    .getByRole('listbox', { name: 'Mentions' })
    .getByRole('option');

  await test.step('a variable', async () => {
    await keyboard.type('describe @pen');
    await expect(options.first()).toHaveText(/^penguins\s*pandas\.DataFrame/);
    await expect(options.filter({ hasText: 'penguins.csv' })).toBeVisible();
    await accessible(page);
    await keyboard.press('Enter');
    await expect(panel.composer).toHaveValue('describe @penguins ');
    await expect(chips(panel.root)).toHaveText(['penguins']);
  });

  await test.step('a cell by its number, one that is taken back, a file', async () => {
    await keyboard.type('@5');
    await expect(options.first()).toHaveText(/^Cell 5\s*import pandas as pd$/);
    await keyboard.press('Tab');
    await keyboard.type('@cell-1');
    await expect(options.first()).toHaveText(/^Cell 1/);
    await keyboard.press('Enter');
    await keyboard.type('@penguins.');
    await expect(options).toHaveText([/^penguins\.csv/]);
    await keyboard.press('Enter');
    await panel.button('Remove Cell 1').press('Enter');
    await expect(panel.composer).toHaveValue(
      'describe @penguins @cell-5 @penguins.csv '
    );
  });

  const sent = ['penguins', 'Cell 5', 'penguins.csv'];
  await test.step('sent, and shown with the message', async () => {
    await expect(chips(panel.root)).toHaveText(sent);
    await accessible(page);
    await panel.composer.press('Enter');
    await panel.answered(1);
    await expect(chips(panel.conversation)).toHaveText(sent);
    await expect(chips(panel.root)).toHaveCount(sent.length);
  });

  await test.step('the model gets what was there, as data', async () => {
    const content = await contentOfFirstMessage(page);
    expect(content).toHaveLength(4);
    expect(content[0]).toContain(
      '<attachment type="variable" name="penguins">'
    );
    expect(content[0]).toContain("'body_mass_g': float64");
    expect(content[1]).toContain(
      `<attachment type="cell" name="${tmpPath}/tour`
    );
    expect(content[1]).toContain('Its output:\nread');
    expect(content[2]).toContain('species,island');
  });

  await page.notebook.save();
  await panel.reload();
  await expect(chips(panel.conversation)).toHaveText(sent);
  await chips(panel.conversation).filter({ hasText: 'Cell 5' }).click();
  await expect(panel.cells.nth(4)).toHaveClass(/jp-mod-active/);
});

test('names with spaces, quotes and accents, by keyboard', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  const { keyboard } = page;
  await page.contents.createDirectory(`${tmpPath}/da ta`);
  for (const name of ['da ta/größe "2" é.csv', "it's.csv"]) {
    await page.contents.uploadContent(name, 'text', `${tmpPath}/${name}`);
  }
  await panel.composer.focus();
  const options = panel.root
    .getByRole('listbox', { name: 'Mentions' })
    .getByRole('option');

  await keyboard.type('compare @da');
  await expect(options.first()).toHaveText(/^da ta\//);
  await keyboard.press('Enter');
  await expect(panel.composer).toHaveValue('compare @"da ta/');
  await expect(options).toHaveText([/^da ta\/\s*The whole folder/, /^größe/]);
  await keyboard.type('größe "2');
  await expect(options).toHaveCount(0);
  for (let i = 0; i < 2; i++) {
    await keyboard.press('Backspace');
  }
  await expect(options).toHaveText([/^größe/]);
  await keyboard.press('Enter');
  await keyboard.type("@it's");
  await expect(options.first()).toHaveText(/^it's\.csv/);
  await keyboard.press('Tab');
  await keyboard.type('@da ');
  await panel.composer.press('Backspace');
  await expect(options.first()).toHaveText(/^da ta\//);
  await keyboard.press('Enter');
  await expect(options.first()).toHaveText(/The whole folder/);
  await keyboard.press('Enter');
  await expect(panel.composer).toHaveValue(
    `compare @'da ta/größe "2" é.csv' @it's.csv @"da ta" `
  );
  const sent = ['größe "2" é.csv', "it's.csv", 'da ta/'];
  await expect(chips(panel.composerBox)).toHaveText(sent);

  await panel.composer.press('Enter');
  await panel.answered(1);
  await expect(chips(panel.conversation)).toHaveText(sent);
  const [file, other, folder] = await contentOfFirstMessage(page);
  expect(file).toContain('da ta/größe "2" é.csv');
  expect(other).toContain("it's.csv");
  expect(folder).toContain('<attachment type="folder"');
});

test('from a cell: ask about it, fix its error, mention what is selected in it', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  const fix = page
    .getByRole('toolbar', { name: 'Cell toolbar' })
    .locator('[data-jp-item-name="prime-fix-error"]');
  await panel.userRuns("print('fine')");
  await expect(fix).toBeHidden();
  await panel.userRuns("penguin_count = pengins['year']");
  await expect(fix).toBeVisible();

  await test.step('nothing is sent before the person says so', async () => {
    await fix.getByRole('button').click();
    await expect(panel.composer).toBeFocused();
    await expect(panel.composer).toHaveValue('Fix this error.');
    await expect(chips(panel.root)).toHaveText(['Error in cell 6']);
    await panel.composer.press('Enter');
    await panel.answered(1);
    await expect(panel.conversation).toContainText('NameError');
    const [error] = await contentOfFirstMessage(page);
    expect(error).toMatch(/^<attachment type="error"/);
    expect(error).toContain("name 'pengins' is not defined");
  });

  await test.step('several cells, by key', async () => {
    await panel.cells.nth(4).locator('.jp-InputPrompt').click();
    await page.keyboard.press('Shift+ArrowDown');
    await page.keyboard.press('Alt+Shift+C');
    await expect(panel.composer).toBeFocused();
    await expect(chips(panel.composerBox)).toHaveText(['2 cells']);
    await page.keyboard.press('Backspace');
    await expect(chips(panel.composerBox)).toHaveCount(0);
  });

  await test.step('a selection', async () => {
    await page.evaluate(() => {
      const { content } = window.jupyterapp.shell
        .currentWidget as NotebookPanel;
      content.activeCellIndex = 5;
      content.activeCell!.editor!.setSelection({
        start: { line: 0, column: 0 },
        end: { line: 0, column: 13 }
      });
    });
    await panel.composer.fill('');
    await panel.composer.pressSequentially('what is @sel');
    await page.keyboard.press('Enter');
    await expect(chips(panel.composerBox)).toHaveText(['Cell 6, line 1']);
  });

  await test.step('dropped', async () => {
    const composer = panel.composerBox;
    const prompt = panel.cells.nth(4).locator('.jp-InputPrompt');
    await prompt.click();
    await drag(page, prompt, composer);
    await expect(chips(composer).last()).toHaveText('Cell 5');
    await drag(
      page,
      page.locator('.jp-DirListing-item', { hasText: 'penguins.csv' }),
      composer
    );
    await expect(chips(composer).last()).toHaveText('penguins.csv');
    // They were not moved away.
    await expect(panel.cells).toHaveCount(6);
  });

  await test.step('an image that is too large, pasted', async () => {
    await pasteImage(panel.composer, 'wide.png');
    await expect(chips(panel.composerBox).last()).toHaveText('wide.png');
    const picture = panel.composerBox.locator('.jp-prime-Chip-image');
    expect(
      await picture.evaluate((image: HTMLImageElement) => image.naturalWidth)
    ).toBe(1568);
    await panel.composer.press('Enter');
    await panel.answered(2);
    await expect(
      panel.conversation.locator('.jp-prime-Chip-image')
    ).toBeVisible();
  });

  await test.step('an image without text', async () => {
    await pasteImage(panel.composer, 'alone.png');
    await panel.button('Send').click();
    await panel.answered(3);
    await expect(panel.turns.last()).not.toContainText('error');
    await expect(
      chips(panel.conversation.getByRole('article').last())
    ).toHaveText('alone.png');
  });
});

function chips(within: Locator): Locator {
  return within.locator('.jp-prime-Chip-label');
}

/** Paste an image that is wider than models accept. */
function pasteImage(composer: Locator, name: string): Promise<void> {
  return composer.evaluate(async (composer, name) => {
    const canvas = document.createElement('canvas');
    canvas.width = 4000;
    canvas.height = 1000;
    canvas.getContext('2d')!.fillRect(0, 0, 2000, 1000);
    const blob = await new Promise<Blob | null>(done => canvas.toBlob(done));
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([blob!], name, { type: 'image/png' }));
    composer.dispatchEvent(
      new ClipboardEvent('paste', { clipboardData, bubbles: true })
    );
  }, name);
}

/** Text of the blocks that the model was sent. */
async function contentOfFirstMessage(
  page: IJupyterLabPageFixture
): Promise<string[]> {
  return page.evaluate(async () => {
    const { baseUrl } = window.jupyterapp.serviceManager.serverSettings;
    const get = async (path: string): Promise<any> =>
      (await fetch(`${baseUrl}prime/api/${path}`)).json();
    const [{ id }] = (await get('sessions')).sessions;
    const { records } = await get(`sessions/${id}/records`);
    return records
      .find((record: any) => record.kind === 'user_message')
      .content.map((block: any) => block.text);
  });
}

/** Lumino listens to the mouse, and begins to drag after some way. */
async function drag(
  page: IJupyterLabPageFixture,
  from: Locator,
  to: Locator
): Promise<void> {
  await from.scrollIntoViewIfNeeded();
  const start = (await from.boundingBox())!;
  const end = (await to.boundingBox())!;
  await page.mouse.move(start.x + 10, start.y + 10);
  await page.mouse.down();
  await page.mouse.move(start.x + 30, start.y + 30, { steps: 4 });
  await page.mouse.move(end.x + 40, end.y + 20, { steps: 8 });
  await page.mouse.up();
}
