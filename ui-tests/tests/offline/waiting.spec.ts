import { openNotebook } from '../documents';
import { expect, PrimePanel, test } from '../panel';

const NOTEBOOK = JSON.stringify({
  cells: [],
  metadata: { kernelspec: { name: 'python3', display_name: 'Python 3' } },
  nbformat: 4,
  nbformat_minor: 5
});

test('a question in a notebook that is not in front, or closed, is told and leads to it', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath, 'ask');
  const [tour, other] = [`${tmpPath}/tour.ipynb`, `${tmpPath}/other.ipynb`];
  await page.contents.uploadContent(NOTEBOOK, 'text', other);
  const notice = page.locator('.Toastify__toast').filter({
    hasText: 'The agent in tour.ipynb needs your decision: '
  });
  const approval = panel.root.getByRole('group', { name: /^Run print/ });
  const status = page.locator('.jp-prime-StatusItem');

  await panel.send('```python\nprint(6 * 7)\n```');
  await expect(approval).toBeVisible();
  await expect(notice).toHaveCount(0);

  await test.step('another notebook in front', async () => {
    await openNotebook(page, other);
    await expect(notice).toHaveCount(1);
    await expect(status).toHaveText('Prime: 1 waits for you');
    await notice.getByRole('button', { name: 'Show' }).click();
    await expect(approval).toBeVisible();
    await expect(notice).toHaveCount(0);
    await expect(status).toHaveText('Prime: Needs your decision');
  });

  await test.step('put away, it is not repeated, and the status bar leads to it', async () => {
    await openNotebook(page, other);
    await expect(status).toHaveText('Prime: 1 waits for you');
    await expect(notice).toHaveCount(0);
    await status.getByRole('button').click();
    await expect(approval).toBeVisible();
  });

  await test.step('its notebook closed: the next question', async () => {
    await expect(panel.button('Dismiss this hint')).toBeVisible();
    await panel.composer.press('Shift+Tab');
    await expect(approval).toBeFocused();
    await page.keyboard.press('d');
    await panel.answered(1);
    await panel.send('```python\nprint(6 * 8)\n```');
    await expect(approval).toBeVisible();
    await page.notebook.close();
    await expect(notice).toHaveCount(1);
    await notice.getByRole('button', { name: 'Show' }).click();
    await expect(approval).toBeVisible();
    await expect
      .poll(() =>
        page.evaluate(() => window.jupyterapp.shell.currentWidget?.title.label)
      )
      .toBe('tour.ipynb');
  });

  await test.step('answered elsewhere, it is taken back', async () => {
    await openNotebook(page, other);
    await expect(status).toHaveText('Prime: 1 waits for you');
    const answer = await page.request.get('prime/api/sessions?active=true');
    const [{ id, notebook, approvals }] = (await answer.json()).sessions;
    expect(notebook).toBe(tour);
    await page.request.post(
      `prime/api/sessions/${id}/approvals/${approvals[0].call_id}`,
      { data: { decision: 'deny' } }
    );
    await expect(status).toBeHidden();
    await expect(notice).toHaveCount(0);
  });
});

test.describe('a question in two tabs', () => {
  test.use({ expectedErrors: [/409 \(Conflict\).*approvals/] });

  test('who answers last is told what was decided', async ({
    page,
    tmpPath
  }) => {
    const panel = await PrimePanel.onExample(page, tmpPath, 'ask');
    await panel.send('```python\nprint(6 * 7)\n```');
    await expect(panel.button('Deny')).toBeVisible();
    // The other tab is faster, and this one has not heard of it yet.
    await page.route('**/approvals/*', async route => {
      const url = route.request().url();
      await page.request.post(url, { data: { decision: 'allow' } });
      await route.continue();
    });
    await panel.button('Deny').click();
    await expect(panel.failure).toContainText(
      'Already answered in another tab: allowed.'
    );
    await panel.answered(1);
    await expect(panel.tools('run_code')).toContainText('42');
  });
});
