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

const CRASH = 'import os, signal\nos.kill(os.getpid(), signal.SIGKILL)';

function fenced(code: string): string {
  return '```python\n' + code.trim() + '\n```';
}

/** Whether the newest snapshot of the session on show is the last thing that was recorded. */
async function saved(page: PrimePanel['page']): Promise<void> {
  await expect
    .poll(async () => {
      const { sessions } = await (
        await page.request.get('/prime/api/sessions')
      ).json();
      const answer = await page.request.get(
        `/prime/api/sessions/${sessions[0].id}/snapshots`
      );
      return (await answer.json()).snapshots.length;
    })
    .toBeGreaterThan(0);
}

test('After a crash it says what is missing, why, and how it was made', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask(fenced(FRAGILE));
  await saved(page);
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

test('After a restart the variables are offered and come back', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask(fenced('answer = 42'));
  await saved(page);
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

test('Saving is switched off for a notebook, and on again', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask(fenced("token = 'sesame'"));
  await saved(page);
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
