import { makeAccessible } from '../markdownAccess';

describe('makeAccessible', () => {
  function rendered(html: string): HTMLElement {
    const node = document.createElement('div');
    node.innerHTML = html;
    makeAccessible(node);
    return node;
  }

  it('lets the keyboard reach tables, which scroll when they are wide', () => {
    const node = rendered('<table><tr><td>1</td></tr></table>');
    expect(node.querySelector('table')!.tabIndex).toBe(0);
  });

  it('names the box of a task by the task, without its subtasks', () => {
    const node = rendered(
      '<ul><li><input type="checkbox" disabled> load <em>all</em> data' +
        '<ul><li><input type="checkbox" disabled> and plot it</li></ul></li></ul>'
    );
    const names = [...node.querySelectorAll('input')].map(box =>
      box.getAttribute('aria-label')
    );
    expect(names).toEqual(['load all data', 'and plot it']);
  });
});
