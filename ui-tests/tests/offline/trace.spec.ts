import { expect, PrimePanel, test } from '../panel';

/** What a person sees of their session; the cell that looks adds itself to what it sees. */
const LOOK = `
import json as _json
print(_json.dumps({
    'last': [repr(_), repr(__), repr(___)],
    'Out': {str(key): repr(value) for key, value in Out.items()},
    'In': In[:-1],
    'count': get_ipython().execution_count,
    'dir': sorted(dir()),
}))
`.trim();

test('looking, code beside the notebook, saving and compacting leave the session of the user as it was', async ({
  page,
  tmpPath
}) => {
  const panel = await PrimePanel.onExample(page, tmpPath);
  await panel.userRuns('answer = 6 * 7\nanswer');
  const before = JSON.parse(await panel.userRuns(LOOK));
  expect(before.last[0]).toBe('42');

  // The list of variables, in the composer; one of them goes along.
  await panel.composer.pressSequentially('what is in @ans');
  const option = panel.root.getByRole('option', { name: 'answer int' });
  await expect(option).toBeVisible();
  await option.click();
  await panel.composer.press('Enter');
  await panel.answered(1);
  await panel.ask('what variables are there');
  await panel.ask('inspect answer');
  await panel.ask('read the notebook');
  // What is run beside the notebook is no part of its history; it is what there is to compact.
  await panel.ask('run: print("a line of the agent’s\\n" * 2_000)');
  // The variables are saved with it.
  await panel.send('/compact');
  await expect(panel.banner).toHaveCount(1);

  const after = JSON.parse(await panel.userRuns(LOOK));
  expect(after).toEqual({
    ...before,
    In: [...before.In, LOOK],
    count: before.count + 1,
    // IPython itself names the source of each cell.
    dir: [...before.dir, `_i${after.count - 1}`].sort()
  });
});
