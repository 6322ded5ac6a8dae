import { expect, PrimePanel, test } from '../panel';

test('Stop while the model cannot be reached, and while it summarises', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask('Hello. Take your time with summaries.');

  await test.step('between two attempts', async () => {
    await panel.send(`fail 9 times, ${Date.now()}`);
    await expect(panel.root.locator('.jp-prime-Activity')).toContainText(
      'next attempt'
    );
    await panel.stopButton.click();
    await panel.answered(2);
    await expect(panel.turns.last()).toContainText('Stopped');
    await expect(panel.failure).toHaveCount(0);
  });

  await test.step('a compaction that was asked for', async () => {
    const running = panel.root.locator(
      '.jp-prime-Compaction[data-status="running"]'
    );
    await panel.send('/compact');
    await expect(running).toBeVisible();
    await panel.send('What did I say?');
    await panel.stopButton.click();
    await expect(
      panel.root.locator('.jp-prime-Compaction[data-status="cancelled"]')
    ).toBeVisible();
    await expect(running).toHaveCount(0);
    await expect(panel.stopButton).toBeHidden();
    await expect(panel.turns).toHaveCount(2);
  });

  await test.step('the conversation goes on as it was', async () => {
    await panel.send('And now?');
    await panel.answered(4);
    await expect(panel.conversation).toContainText('You said: What did I say?');
    await expect(panel.conversation).toContainText('You said: And now?');
    await expect(panel.banner).toHaveCount(0);
  });
});
