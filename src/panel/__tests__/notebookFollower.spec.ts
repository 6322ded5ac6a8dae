import { INotebookTracker } from '@jupyterlab/notebook';
import { Contents } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { ISessions } from '../../tokens';
import { PanelController } from '../controller';
import { NotebookFollower } from '../notebookFollower';

describe('revealCell', () => {
  const MARK = 'jp-prime-mod-revealed';
  const cells = ['a', 'b'].map(id => ({
    model: { id },
    node: document.createElement('div')
  }));
  const scrollToItem = jest.fn();
  const panel = {
    context: { path: 'work.ipynb' },
    content: {
      widgets: cells,
      activeCellIndex: -1,
      deselectAll: () => undefined,
      scrollToItem
    }
  };
  const follower = new NotebookFollower(
    {
      widgetAdded: new Signal({}),
      currentChanged: new Signal({}),
      currentWidget: null,
      forEach: () => undefined,
      find: (is: (found: unknown) => boolean) => [panel].find(is)
    } as unknown as INotebookTracker,
    {} as PanelController,
    {} as ISessions,
    { localPath: (path: string) => path } as Contents.IManager
  );

  it('selects the cell and marks it for a moment', async () => {
    scrollToItem.mockResolvedValueOnce(undefined);
    expect(follower.revealCell('work.ipynb', 'b')).toBe(true);
    await Promise.resolve();
    expect(panel.content.activeCellIndex).toBe(1);
    const { classList } = cells[1].node;
    expect(classList.contains(MARK)).toBe(true);
    cells[1].node.dispatchEvent(new Event('animationend'));
    expect(classList.contains(MARK)).toBe(false);
  });

  it('knows no cell that is not there', () => {
    expect(follower.revealCell('work.ipynb', 'c')).toBe(false);
    expect(follower.revealCell('other.ipynb', 'a')).toBe(false);
  });

  it('gives way to the next cell', async () => {
    // As JupyterLab does when it scrolls to another cell meanwhile.
    const scrolling = Promise.reject('Scrolling to a new item is requested.');
    const unhandled = jest.fn();
    process.on('unhandledRejection', unhandled);
    scrollToItem.mockReturnValueOnce(scrolling);
    expect(follower.revealCell('work.ipynb', 'a')).toBe(true);
    await new Promise(resolve => setTimeout(resolve));
    process.off('unhandledRejection', unhandled);
    expect(unhandled).not.toHaveBeenCalled();
    expect(cells[0].node.classList.contains(MARK)).toBe(false);
  });
});
