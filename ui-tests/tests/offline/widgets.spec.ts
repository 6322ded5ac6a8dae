import { expect, PrimePanel, test } from '../panel';

test('a widget that the agent’s cell shows is alive, for the person and the kernel', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.ask(
    [
      'Insert a cell and run it:',
      '```python',
      'from ipywidgets import IntSlider',
      'slider = IntSlider(value=7, max=9, description="bins")',
      'slider',
      '```'
    ].join('\n')
  );
  const slider = panel.cells.last().getByRole('slider');
  await expect(slider).toHaveAttribute('aria-valuenow', '7.0');
  await slider.focus();
  await slider.press('ArrowRight');
  await expect(slider).toHaveAttribute('aria-valuenow', '8.0');
  await panel.ask('```python\nprint("bins:", slider.value)\n```');
  await expect(panel.tools('run_code')).toContainText('bins: 8');
});
