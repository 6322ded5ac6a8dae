import { INotebookTracker } from '@jupyterlab/notebook';
import { Contents } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';
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
    { localPath: (path: string) => path } as Contents.IManager,
    new Promise(() => undefined),
    undefined
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

describe('the notebook that the panel follows', () => {
  const panelOf = (path: string) => ({
    context: { path },
    isVisible: true,
    sessionContext: {
      statusChanged: new Signal({}),
      kernelChanged: new Signal({})
    }
  });
  let restored: PromiseDelegate<void>;
  let shellChanged: Signal<any, void>;
  let setNotebook: jest.Mock;
  let makeCurrent: (panel: object) => void;

  beforeEach(() => {
    restored = new PromiseDelegate<void>();
    shellChanged = new Signal({});
    setNotebook = jest.fn();
    const currentChanged = new Signal<any, void>({});
    const tracker = {
      widgetAdded: new Signal({}),
      currentChanged,
      currentWidget: null as object | null,
      forEach: () => undefined
    };
    makeCurrent = panel => {
      tracker.currentWidget = panel;
      currentChanged.emit();
    };
    new NotebookFollower(
      tracker as unknown as INotebookTracker,
      { setNotebook, setKernel: jest.fn() } as unknown as PanelController,
      {} as ISessions,
      { localPath: (path: string) => path } as Contents.IManager,
      restored.promise,
      shellChanged
    );
  });

  it('is none of those that are opened again with the layout', async () => {
    makeCurrent(panelOf('behind.ipynb'));
    makeCurrent(panelOf('front.ipynb'));
    expect(setNotebook).not.toHaveBeenCalled();
    restored.resolve();
    await restored.promise;
    expect(setNotebook.mock.calls).toEqual([['front.ipynb']]);
    makeCurrent(panelOf('behind.ipynb'));
    expect(setNotebook).toHaveBeenLastCalledWith('behind.ipynb');
  });

  it('is one that was opened in the background once that is shown', async () => {
    restored.resolve();
    await restored.promise;
    makeCurrent(panelOf('front.ipynb'));
    const behind = { ...panelOf('behind.ipynb'), isVisible: false };
    makeCurrent(behind);
    expect(setNotebook).toHaveBeenLastCalledWith('front.ipynb');
    behind.isVisible = true;
    shellChanged.emit();
    expect(setNotebook).toHaveBeenLastCalledWith('behind.ipynb');
  });
});
