import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import type { WebSocketRoute } from '@playwright/test';
import { resolve } from 'node:path';
import { accessible, expect, PrimePanel, test } from '../panel';

test('by keyboard alone: write, approve, deny, open cards, find the help', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath, 'ask');
  const { keyboard } = page;
  const cells = await panel.cells.count();
  await panel.open();
  await expect(panel.composer).toBeFocused();

  await test.step('commands complete', async () => {
    await keyboard.type('/he');
    const commands = panel.root.getByRole('listbox', { name: 'Commands' });
    await expect(commands.getByRole('option')).toHaveText([/^\/help/]);
    await keyboard.press('Tab');
    await expect(panel.composer).toHaveValue('/help');
    await keyboard.press('Enter');
    await panel.answered(1);
    await expect(panel.conversation).toContainText('/tour');
  });

  await test.step('a change waits for a key', async () => {
    await keyboard.type('insert a cell with `marker = 12`');
    await keyboard.press('Enter');
    const question = panel.root.getByRole('group', { name: /insert/i });
    await expect(question).toBeVisible();
    await expect(panel.tools('insert_cell')).toContainText('marker = 12');
    // What is typed meanwhile is text, and no answer.
    await keyboard.type('a');
    await expect(panel.composer).toHaveValue('a');
    await expect(question).toBeVisible();
    await expect(panel.cells).toHaveCount(cells);
    await keyboard.press('Backspace');
    await keyboard.press('Shift+Tab');
    await expect(question).toBeFocused();
    await keyboard.press('d');
    await panel.answered(2);
    await expect(
      panel.tools('insert_cell').getByRole('img', { name: 'denied' })
    ).toBeVisible();
    await expect(panel.cells).toHaveCount(cells);

    // The cursor is back where one writes.
    await expect(panel.composer).toBeFocused();
    await keyboard.press('ArrowUp');
    await expect(panel.composer).toHaveValue(/marker = 12/);
    await keyboard.press('Enter');
    await expect(question).toBeVisible();
    await keyboard.press('Shift+Tab');
    await expect(question).toBeFocused();
    await keyboard.press('a');
    await panel.answered(3);
    await expect(panel.cells).toHaveCount(cells + 1);
  });

  await test.step('every control is reached, named, and seen to have the focus', async () => {
    await expect(panel.composer).toBeFocused();
    await keyboard.type('draft');
    expect(await walk(page, 'Tab', 4)).toEqual([
      'Permissions',
      'Model: Offline agent',
      'Context used',
      'Send'
    ]);
    await panel.composer.focus();
    const back = await walk(page, 'Shift+Tab', 13);
    expect(back).toContain('Conversation');
    expect(back.slice(-3)).toEqual([
      'More',
      'New session',
      expect.stringMatching(/^Session: /)
    ]);
  });

  await test.step('a menu leads to the help, Esc leads back', async () => {
    await panel.button('More').focus();
    await keyboard.press('Enter');
    await expect(panel.menuItem('Compact now')).toBeVisible();
    await keyboard.press('ArrowUp');
    await keyboard.press('ArrowUp');
    await keyboard.press('Enter');
    const help = panel.root.getByRole('region', { name: 'Commands and keys' });
    await expect(help).toContainText('Allow once, for the session, deny');
    await keyboard.press('Escape');
    await expect(panel.composer).toBeFocused();
    await expect(panel.composer).toHaveValue('draft');
  });
});

test('at 240 pixels, in light and dark: nothing is cut off, all has a name', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await page.sidebar.setWidth(240, 'right');
  await accessible(page);

  await panel.ask('load penguins.csv');
  await panel.ask('describe penguins');
  await panel.tools('run_cell').first().getByRole('button').first().click();
  await panel.send('/compact');
  await expect(panel.banner).toBeVisible();
  await panel.banner.getByRole('button').click();
  await accessible(page);
  expect(await cutOff(panel)).toEqual([]);

  await page.theme.setDarkTheme();
  await accessible(page);

  await panel.model.click();
  await panel.menuItem('Connect a model…').click();
  await expect(
    panel.root.getByRole('radio', { name: 'Anthropic', exact: true })
  ).toBeFocused();
  await accessible(page);
  expect(await cutOff(panel)).toEqual([]);
});

test('a notebook that is opened in the background is not followed until it is shown', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  const path = `${tmpPath}/other.ipynb`;
  await page.contents.uploadFile(
    resolve(__dirname, '../../../examples/tour.ipynb'),
    path
  );
  await panel.composer.focus();
  await page.evaluate(async path => {
    const notebook = await window.jupyterapp.commands.execute(
      'docmanager:open',
      { path, options: { activate: false } }
    );
    await notebook.context.ready;
  }, path);
  const notebook = panel.root.locator('.jp-prime-Header-name');
  await expect(notebook).toHaveText('tour.ipynb');
  await page.locator('.lm-TabBar-tab', { hasText: 'other.ipynb' }).click();
  await expect(notebook).toHaveText('other.ipynb');
  await page.locator('.lm-TabBar-tab', { hasText: 'tour.ipynb' }).click();
  await expect(notebook).toHaveText('tour.ipynb');
});

test('a notification of JupyterLab is not over the composer', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await page.evaluate(() =>
    window.jupyterapp.commands.execute('apputils:notify', {
      message: 'Something that stays until it is dismissed. '.repeat(3),
      type: 'info',
      options: { autoClose: false }
    })
  );
  const notice = page.locator('.Toastify__toast');
  const end = async (of: typeof notice): Promise<number> => {
    const { x, width } = (await of.boundingBox())!;
    return x + width;
  };
  await expect(notice).toBeVisible();
  for (const width of [300, 500]) {
    await page.sidebar.setWidth(width, 'right');
    const { x } = (await panel.root.boundingBox())!;
    await expect.poll(() => end(notice)).toBeLessThanOrEqual(x);
  }
  await panel.ask('hello');

  await page.sidebar.close('right');
  await expect.poll(() => end(notice)).toBeGreaterThan(1200);
});

test('what is written from right to left is shown so', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.composer.fill('مرحبا.');
  await expect(panel.composer).toHaveCSS('direction', 'rtl');
  await panel.ask('مرحبا.');
  const message = panel.root.locator('.jp-prime-User-text').last();
  const [text, box] = await message.evaluate(node => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [range, node].map(of => of.getBoundingClientRect().toJSON());
  });
  expect(text.width).toBeLessThan(box.width / 2);
  expect(text.right).toBeCloseTo(box.right, 0);
});

test('nothing about a long text is left for the browser to find out at each key', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.composer.fill('word '.repeat(60_000));
  await expect(panel.composer).toHaveAttribute('dir', 'ltr');
  const height = await panel.composer.evaluate(e => e.style.height);
  await panel.composer.press('End');
  await panel.composer.pressSequentially('?');
  await expect(panel.composer).toHaveValue(/word \?$/);
  expect(await panel.composer.evaluate(e => e.style.height)).toBe(height);
  expect(parseFloat(height)).toBeGreaterThan(100);
});

test.describe('several sessions', () => {
  // The browser says so itself when the stream of the deleted session ends.
  test.use({ expectedErrors: [/404.*\/prime\/api\/sessions\//] });

  test('a second one, back to the first, a name, the end of one', async ({
    page,
    tmpPath
  }) => {
    const panel = await PrimePanel.onExample(page, tmpPath);
    await panel.ask('hello in the first');
    await expect(panel.session).toContainText('hello in the first');

    await panel.button('New session').click();
    await expect(panel.conversation).toBeHidden();
    await panel.ask('hello in the second');
    await expect(panel.conversation).not.toContainText('in the first');

    await panel.session.click();
    await panel.menuItem('hello in the first').click();
    await expect(panel.conversation).toContainText('hello in the first');
    await expect(panel.conversation).not.toContainText('in the second');

    await panel.button('More').click();
    await panel.menuItem('Rename session…').click();
    const dialog = page.locator('.jp-Dialog');
    await dialog.locator('input').fill('Penguins');
    await dialog.getByRole('button', { name: 'Rename' }).click();
    await expect(panel.session).toHaveText('Penguins');

    // Which one was in front is remembered.
    const known = await page.request.get('/prime/api/sessions');
    const { id } = (await known.json()).sessions.find(
      (session: { title: string }) => session.title === 'Penguins'
    );
    await panel.remembered(id);
    await panel.reload();
    await expect(panel.session).toHaveText('Penguins');

    await panel.button('More').click();
    await panel.menuItem('Delete session…').click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await expect(panel.conversation).toContainText('hello in the second');
    await panel.session.click();
    await expect(panel.menuItem('Penguins')).toHaveCount(0);
  });
});

test.describe('a model is connected', () => {
  // The browser says so itself when a key is refused.
  test.use({ expectedErrors: [/400.*\/prime\/api\/credentials/] });
  test.afterEach(async ({ request, baseURL }) => {
    await request.delete(`${baseURL}/prime/api/credentials`);
  });

  test('no server, a wrong key, a right one, and back', async ({
    page,
    tmpPath
  }) => {
    const panel = await PrimePanel.onExample(page, tmpPath);
    await panel.button('Connect a model…').click();
    const form = panel.root.getByRole('region', { name: 'Connect a model' });
    const key = form.getByLabel(/^API key/);
    const connect = form.getByRole('button', { name: /^Connect/ });

    await connect.click();
    await expect(panel.failure).toContainText('The API key is missing.');

    await form.getByLabel(/^Another server/).check();
    await expect(panel.failure).toBeHidden();
    await form.getByLabel('Base URL').fill('http://127.0.0.1:9');
    await connect.click();
    await expect(form.getByRole('status')).toContainText('127.0.0.1:9');
    await form.getByRole('button', { name: 'Close' }).last().click();
    await expect(form).toBeHidden();
    await expect(panel.model).not.toHaveText('Offline agent');
    await panel.ask('Hello');
    await expect(panel.failure).toContainText('127.0.0.1:9');
    await expect(panel.failure).toContainText('Check the network');

    await panel.button('Connect a model…').click();
    await form.getByLabel(/^Another server/).check();
    await form.getByLabel('Base URL').fill(process.env.PRIME_TEST_API!);
    await key.fill('wrong-key-0123456789');
    await connect.click();
    await expect(panel.failure.last()).toContainText('refused the key');
    await expect(panel.root).not.toContainText('wrong-key-0123456789');

    await key.fill('test-key-0123456789');
    await connect.click();
    await expect(form).toBeHidden();
    await panel.button('Try again').click();
    await panel.answered(2);
    await expect(panel.conversation).toContainText('You said: Hello');

    await panel.model.click();
    await panel.menuItem('Connect a model…').click();
    await expect(key).toHaveValue('');
    const { host } = new URL(process.env.PRIME_TEST_API!);
    await expect(form).toContainText(`The connection to ${host} is stored.`);
    await form.getByRole('button', { name: 'Remove it' }).click();
    await panel.button('New session').click();
    await expect(panel.model).toHaveText('Offline agent');
  });
});

test('what is sent while the first message is on its way is queued behind it', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  let create = (): void => undefined;
  const creating = new Promise<void>(resolve => {
    create = resolve;
  });
  await page.route(/\/prime\/api\/sessions$/, async route => {
    if (route.request().method() === 'POST') {
      await creating;
    }
    await route.fallback();
  });
  await panel.send('insert a cell with `first = 1`');
  await panel.send('insert a cell with `second = 2`');
  await panel.send('insert a cell with `third = 3`');
  const queued = panel.root
    .getByRole('list', { name: 'Queued messages' })
    .getByRole('listitem');
  await expect(queued).toHaveText([
    /^Queued.*second = 2/,
    /^Queued.*third = 3/
  ]);
  await accessible(page);

  create();
  await panel.answered(3);
  await expect(queued).toHaveCount(0);
  await expect(panel.cells.locator('.cm-content')).toContainText([
    'first = 1',
    'second = 2',
    'third = 3'
  ]);
});

test.describe('a notebook that cannot be saved', () => {
  test.use({ expectedErrors: [/403.*\/api\/contents\//] });

  test('the agent says so, not only its tool card', async ({
    page,
    tmpPath
  }) => {
    const panel = await PrimePanel.onExample(page, tmpPath);
    await page.route(/\/api\/contents\/.*tour\.ipynb/, route =>
      route.request().method() === 'PUT'
        ? route.fulfill({ status: 403, json: { message: 'It is read-only.' } })
        : route.fallback()
    );
    await panel.ask('insert a cell with `x = 1`');
    await expect(panel.conversation).toContainText(
      'But the notebook is not saved: It is read-only.'
    );
  });
});

test('cut off from the server: said so, and nothing is missed', async ({
  page,
  tmpPath
}) => {
  let cut = false;
  const sockets: WebSocketRoute[] = [];
  await page.routeWebSocket(/\/prime\/api\/sessions\/.*\/stream/, socket => {
    if (cut) {
      void socket.close();
    } else {
      socket.connectToServer();
      sockets.push(socket);
    }
  });
  await page.reload();
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask('hello');

  cut = true;
  await Promise.all(sockets.map(socket => socket.close()));
  const banner = panel.root.getByText('Disconnected from the server.');
  await expect(banner).toBeVisible();

  // The message goes another way; what the agent does is seen when the connection is back.
  await panel.send('load penguins.csv');
  await expect(panel.turns).toHaveCount(1);

  cut = false;
  // The panel tries by itself as well; the button is gone if it was quicker.
  await panel
    .button('Reconnect')
    .click({ timeout: 5_000 })
    .catch(() => expect(banner).toBeHidden());
  await panel.answered(2);
  await expect(banner).toBeHidden();
  await expect(panel.conversation).toContainText('load penguins.csv');
  await expect(panel.tools('run_cell')).toHaveCount(1);
  await expect(panel.cells.filter({ hasText: 'read_csv' })).toHaveCount(1);
  await expect(panel.cells.last()).toContainText('344 rows');
});

test.describe('without a connection', () => {
  test.use({ expectedErrors: [/ERR_INTERNET_DISCONNECTED|WebSocket/] });

  test('a message stays in the composer, and one failure says what to do', async ({
    page,
    tmpPath
  }) => {
    const sockets: WebSocketRoute[] = [];
    await page.routeWebSocket(/\/prime\/api\/sessions\/.*\/stream/, socket => {
      socket.connectToServer();
      sockets.push(socket);
    });
    await page.reload();
    const panel = await PrimePanel.onExample(page, tmpPath);
    await panel.ask('hello');
    await page.context().setOffline(true);
    // The browser leaves what is open already.
    await page.routeWebSocket(/\/prime\/api\/sessions\/.*\/stream/, socket =>
      socket.close()
    );
    await Promise.all(sockets.map(socket => socket.close()));
    await expect(
      panel.root.getByText('Disconnected from the server.')
    ).toBeVisible();
    await panel.composer.fill('load penguins.csv');
    for (let times = 0; times < 2; times++) {
      await panel.composer.press('Enter');
      await expect(panel.composer).toHaveValue('load penguins.csv');
      await expect(panel.failure).toHaveText(
        'The message was not sent.Send it again when the Jupyter server responds.'
      );
    }
    await accessible(page);
    await page.context().setOffline(false);
    await panel.composer.press('Enter');
    await expect(panel.composer).toHaveValue('');
    await expect(panel.failure).toHaveCount(0);
  });
});

/** Press a key some times; the names of what had the focus. Fails where that cannot be seen. */
async function walk(
  page: IJupyterLabPageFixture,
  key: string,
  times: number
): Promise<string[]> {
  const names: string[] = [];
  for (let i = 0; i < times; i++) {
    await page.keyboard.press(key);
    const { name, visible } = await page.evaluate(() => {
      const element = document.activeElement as HTMLElement;
      // A select that is drawn by its label shows the focus there.
      const shown = [element, element.parentElement!].map(candidate =>
        getComputedStyle(candidate)
      );
      return {
        name:
          element.getAttribute('aria-label') ??
          (element.title || element.innerText),
        visible: shown.some(
          ({ outlineStyle, outlineWidth, boxShadow }) =>
            (outlineStyle !== 'none' && outlineWidth !== '0px') ||
            boxShadow !== 'none'
        )
      };
    });
    expect(visible, `the focus on “${name}” is visible`).toBe(true);
    names.push(name);
  }
  return names;
}

/** What sticks out of the panel, less what scrolls by itself. */
function cutOff(panel: PrimePanel): Promise<string[]> {
  return panel.root.evaluate(root => {
    const { right } = root.getBoundingClientRect();
    return [...root.querySelectorAll<HTMLElement>('*')]
      .filter(
        element =>
          element.getBoundingClientRect().right > right + 1 &&
          !element.closest(
            '.jp-prime-VisuallyHidden, pre, table, .cm-editor, .jp-OutputArea-output'
          )
      )
      .map(element => element.outerHTML.slice(0, 200));
  });
}
