import { nameTasks } from '../taskNames';

describe('nameTasks', () => {
  it('names the box of a task by the task, without its subtasks', () => {
    const node = document.createElement('div');
    node.innerHTML =
      '<ul><li><input type="checkbox" disabled> load <em>all</em> data' +
      '<ul><li><input type="checkbox" disabled> and plot it</li></ul></li></ul>';
    nameTasks(node);
    const names = [...node.querySelectorAll('input')].map(box =>
      box.getAttribute('aria-label')
    );
    expect(names).toEqual(['load all data', 'and plot it']);
  });
});
