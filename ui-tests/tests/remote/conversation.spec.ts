import { accessible, expect, PrimePanel, test } from '../panel';

test('Stop, by button and by key; messages wait and can be taken back', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask('Hello');

  await panel.send('Tell a long story.');
  await expect(panel.stopButton).toBeVisible();
  await expect(panel.conversation).toContainText('A penguin walked');
  await panel.composer.press('Escape');
  await panel.answered(2);
  await expect(panel.turns.last()).toContainText('Stopped');
  // What came stays.
  await expect(panel.conversation).toContainText('A penguin walked');

  await panel.send('Tell a long story again.');
  await panel.send('first in the queue');
  await panel.send('second in the queue');
  const queue = panel.root.getByRole('list', { name: 'Queued messages' });
  await expect(queue.getByRole('listitem')).toHaveCount(2);
  await panel.button('Remove queued message: first in the queue').click();
  await expect(queue.getByRole('listitem')).toHaveText([/second in the queue/]);
  await expect(panel.conversation.getByRole('article')).toHaveCount(3);
  await panel.stopButton.click();

  // Stopped, it waits until it is sent.
  await panel.answered(3);
  await expect(panel.turns.last()).toContainText('Stopped');
  await expect(queue).toBeVisible();
  await panel.button('Send now').press('Enter');
  await expect(panel.composer).toBeFocused();
  await expect(panel.root.getByText('Queued message sent')).toHaveCount(1);
  await panel.answered(4);
  await expect(queue).toBeHidden();
  await expect(panel.conversation).toContainText(
    'You said: second in the queue'
  );
  await expect(panel.conversation).not.toContainText('first in the queue');
});

test('trouble with the server: tried again, or said with what to do', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask('Hello');

  const turns = await panel.turns.count();
  // The API counts what was said, so that each run says something else.
  await panel.send(`fail 1 time, ${Date.now()}`);
  await expect(panel.root.locator('.jp-prime-Activity')).toContainText(
    /overloaded.*next attempt in \d+ s \(2 of \d+\)/i
  );
  await panel.answered(turns + 1);
  await expect(panel.conversation).toContainText('I am back.');
  await expect(panel.failure).toHaveCount(0);

  await panel.ask('refuse this');
  await expect(panel.failure).toContainText('The scenario refuses this.');
  await expect(panel.turns.last()).toContainText('Ended with an error');
  await expect(panel.button('Try again')).toBeVisible();

  // The session goes on.
  await panel.ask('And now?');
  await expect(panel.conversation).toContainText('You said: And now?');
  await expect(panel.button('Try again')).toHaveCount(0);
});

test('Markdown, tables, formulas, code and thoughts are rendered', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask('a table and a formula');
  const { conversation } = panel;
  await expect(conversation.getByRole('cell').first()).toHaveText('Adelie');
  await expect(conversation.locator('mjx-container').first()).toBeVisible();
  const code = conversation.locator('pre', { hasText: 'body_mass_g' });
  await expect(code).toBeVisible();
  // Highlighted as Python.
  await expect(code.locator('span').first()).toBeVisible();

  const cells = await panel.cells.count();
  await conversation
    .getByRole('button', { name: 'Insert as a cell below' })
    .click();
  await expect(panel.cells).toHaveCount(cells + 1);
  await expect(
    panel.cells.filter({ hasText: 'penguins["body_mass_g"]' })
  ).toHaveCount(1);

  await panel.ask('think about it');
  await panel.button('Thoughts').click();
  await expect(conversation).toContainText('so I think it through');
  await expect(conversation).toContainText('I have thought.');
});

test('what is wider than the panel is scrolled by keyboard, and nothing else stops Tab', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await page.sidebar.setWidth(240, 'right');
  await panel.ask('something wide');
  const groups = (name: string) =>
    panel.conversation.getByRole('group', { name, exact: true });
  await expect(groups('Table')).toHaveCount(1);
  await expect(groups('Code')).toHaveCount(1);
  // One on a line of its own, one in a sentence; a short one is left in its sentence.
  await expect(groups('Formula')).toHaveCount(2);
  await accessible(page);
  for (const name of ['Table', 'Code', 'Formula']) {
    const group = groups(name).last();
    await group.press('ArrowRight');
    await expect
      .poll(() => group.evaluate(node => node.scrollLeft))
      .toBeGreaterThan(0);
  }

  await panel.composer.focus();
  await page.sidebar.setWidth(700, 'right');
  await expect(groups('Table')).toHaveCount(0);
  await expect(groups('Formula')).toHaveCount(0);
});
