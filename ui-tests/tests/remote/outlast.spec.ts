import { Locator } from '@playwright/test';
import { folderOf, SteppedRun } from '../documents';
import { expect, PrimePanel, test } from '../panel';

function status(card: Locator, name: string): Locator {
  return card.getByRole('img', { name });
}

test('a run goes on behind its call, a reply, a reload and Stop', async ({
  page,
  tmpPath
}) => {
  test.slow();
  const panel = await PrimePanel.onExample(page, tmpPath);
  const folder = folderOf(tmpPath, 'remote');
  await panel.ask('Hello');

  await test.step('the model waits for it', async () => {
    const run = new SteppedRun(folder, 'awaited');
    const card = panel.tools('run_code').last();
    await panel.send(run.asked('Run and wait:'));
    await expect(panel.tools('wait_for_run')).toHaveCount(1);
    await expect(status(card, 'running')).toBeVisible();
    await run.go(1);
    await expect(card).toContainText(run.steps[1]);
    await run.go(2);
    await panel.answered(2);
    await expect(status(card, 'done')).toBeVisible();
    await expect(card).toContainText(run.steps[2]);
    await expect(panel.conversation).toContainText('It has ended.');
  });

  await test.step('the model has answered; the page is loaded again', async () => {
    const run = new SteppedRun(folder, 'left');
    const card = panel.tools('run_code').last();
    await panel.send(run.asked('Run and leave:'));
    await expect(panel.conversation).toContainText('It is under way.');
    await expect(status(card, 'running')).toBeVisible();
    await run.go(1);
    await expect(card).toContainText(run.steps[1]);
    await expect(panel.stopButton).toBeVisible();
    await panel.reload();
    await expect(status(card, 'running')).toBeVisible();
    await expect(card).toContainText(run.steps[1]);
    await run.go(2);
    await panel.answered(3);
    await expect(status(card, 'done')).toBeVisible();
    await expect(card).toContainText(run.steps[2]);
    await panel.ask('What became of it?');
    await expect(
      panel.conversation.locator('.jp-prime-Text').last()
    ).toContainText('has ended');
  });

  await test.step('stopped, but it ignores interrupts', async () => {
    const run = new SteppedRun(folder, 'deaf', true);
    const card = panel.tools('run_code').last();
    await panel.send(run.asked('Run and leave:'));
    await run.said(1);
    await panel.stopButton.click();
    await panel.answered(5);
    await expect(panel.turns.last()).toContainText('Stopped');
    await expect(status(card, 'running')).toBeVisible();
    await panel.reload();
    await expect(status(card, 'running')).toBeVisible();
    await run.go(1);
    await expect(card).toContainText(run.steps[1]);
    await run.go(2);
    await expect(status(card, 'done')).toBeVisible();
    await expect(card).toContainText(run.steps[2]);
  });
});
