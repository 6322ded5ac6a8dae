import { expect, PrimePanel, test } from '../panel';

/** A variable that cannot be loaded while the file `broken` is there, and one that can. */
const FRAGILE = `
import pathlib
class Probe:
    def __reduce__(self):
        return (connect, (str(pathlib.Path('broken').absolute()),))
def connect(broken):
    import os
    if os.path.exists(broken):
        raise OSError('the cable was pulled')
    return Probe()
probe = Probe()
reading = [1, 2, 3]
`;

const HANGING = FRAGILE.replace(
  "raise OSError('the cable was pulled')",
  '__import__("time").sleep(600)'
);

const CRASH = 'import os, signal\nos.kill(os.getpid(), signal.SIGKILL)';

function fenced(code: string): string {
  return '```python\n' + code.trim() + '\n```';
}

/** Wait until the newest snapshot of the notebook's session holds the variable. */
async function saved(
  page: PrimePanel['page'],
  folder: string,
  variable: string
): Promise<void> {
  const ask = async (at: string): Promise<any> =>
    (await page.request.get(`/prime/api/sessions${at}`)).json();
  const notebook = encodeURIComponent(`${folder}/tour.ipynb`);
  await expect
    .poll(async () => {
      const { sessions } = await ask(`?notebook=${notebook}`);
      const { snapshots } = await ask(`/${sessions[0].id}/snapshots`);
      return Object.keys(snapshots[0]?.names ?? {});
    })
    .toContain(variable);
}

test('After a crash it says what is missing, why, and how it was made', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask(fenced(FRAGILE));
  await saved(page, tmpPath, 'reading');
  await panel.ask(fenced(`pathlib.Path('broken').touch()\n${CRASH}`));
  const card = panel.root.locator('.jp-prime-Restore');
  await expect(card).toContainText('The kernel died and was started again');
  await expect(card).toContainText('the cable was pulled');
  // Lab itself says in front of everything that the kernel died.
  await page.getByRole('dialog').getByRole('button', { name: 'Ok' }).click();
  const show = card.getByRole('button', { name: 'Show how probe was made' });
  await show.press('Enter');
  await expect(show).toHaveAttribute('aria-expanded', 'true');
  await expect(card.locator('.jp-prime-Code')).toContainText('probe = Probe()');
  expect(await panel.userRuns('print(sum(reading))')).toContain('6');
});

test('What hung is loaded for who asks, stopped again, and has its result in a card', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask(fenced(`${HANGING.trim()}\npathlib.Path('broken').touch()`));
  await saved(page, tmpPath, 'reading');
  await panel.ask(fenced(CRASH));
  const cards = panel.root.locator('.jp-prime-Restore');
  await expect(cards).toContainText('The kernel died and was started again');
  await page.getByRole('dialog').getByRole('button', { name: 'Ok' }).click();
  await panel.button('Load probe anyway').press('Enter');
  const stop = panel.button('Stop loading probe');
  await expect(stop).toBeFocused();
  await stop.press('Enter');
  await expect(cards.last()).toContainText('Could not be loaded: probe.');
  await expect(cards.first().getByText('probe', { exact: true })).toBeVisible();
  await expect(
    cards.first().locator('li', { hasText: 'probe' }).last()
  ).toBeFocused();
  await panel.userRuns("print(pathlib.Path('broken').unlink())");
  // The last word on a name is the one that has the button.
  await expect(panel.button('Load probe anyway')).toHaveCount(1);
  await panel.button('Load probe anyway').click();
  await expect(cards.last()).toContainText('Loaded: probe.');
  expect(await panel.userRuns('print(type(probe).__name__)')).toContain(
    'Probe'
  );
});

test('After a restart the variables are offered and come back', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask(fenced('answer = 42'));
  await saved(page, tmpPath, 'answer');
  await page.evaluate(async () => {
    const { shell } = window.jupyterapp;
    await (shell.currentWidget as any).sessionContext.session.kernel.restart();
  });
  const card = panel.root.locator('.jp-prime-Restore');
  await expect(card).toContainText('The kernel was restarted');
  await panel.button('Restore variables').click();
  await expect(card.last()).toContainText('1 variable restored');
  await expect(panel.button('Restore variables')).toHaveCount(0);
  expect(await panel.userRuns('print(answer)')).toContain('42');
});

test('A page that was slow to ask for a kernel gets the one the agent works in', async ({
  page,
  tmpPath
}) => {
  let ask = (): void => undefined;
  const slow = new Promise<void>(resolve => (ask = resolve));
  const isJupyters = ({ pathname }: URL): boolean =>
    pathname === '/api/sessions';
  await page.route(isJupyters, async route => {
    if (route.request().method() === 'POST') {
      await slow;
    }
    await route.continue();
  });
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask(fenced('answer = 42'));
  ask();
  expect(await panel.userRuns('print(answer)')).toContain('42');
  await panel.ask(fenced('print(answer + 1)'));
  await expect(panel.conversation).toContainText('43');
  const kernels = await page.request.get('/api/kernels');
  expect(await kernels.json()).toHaveLength(1);
});

test('Saving is switched off for a notebook, and on again', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask(fenced("token = 'sesame'"));
  await saved(page, tmpPath, 'token');
  const toggle = async (): Promise<void> => {
    await panel.button('More').click();
    await page
      .locator('.jp-prime-Menu')
      .getByText('Save variables of this notebook')
      .click();
  };
  await toggle();
  await page.getByRole('button', { name: 'Stop saving and delete' }).click();
  await expect(panel.root.getByText('variables not saved')).toBeVisible();
  await expect(panel.conversation).toContainText(
    'Variables of this notebook are no longer saved'
  );
  await panel.reload();
  await expect(panel.root.getByText('variables not saved')).toBeVisible();
  await toggle();
  await expect(panel.root.getByText('variables not saved')).toBeHidden();
});
