import { nullTranslator } from '@jupyterlab/translation';

import { frameTables, WideContent } from '../wideContent';

const HTML =
  '<pre>x = 1</pre><table><tr><td>1</td></tr></table>' +
  '<mjx-container>x</mjx-container><p>text</p>';

describe('WideContent', () => {
  let room: number;
  let resized: () => void;
  let node: HTMLElement;
  let content: WideContent;

  /** Role and name of what the keyboard reaches, once the changes so far were seen. */
  async function reached(): Promise<(string | null)[][]> {
    await Promise.resolve();
    await new Promise(resolve => requestAnimationFrame(resolve));
    return [...node.querySelectorAll('[tabindex="0"]')].map(element => [
      element.getAttribute('role'),
      element.getAttribute('aria-label')
    ]);
  }

  beforeEach(() => {
    room = 300;
    jest.spyOn(Element.prototype, 'scrollWidth', 'get').mockReturnValue(400);
    jest
      .spyOn(Element.prototype, 'clientWidth', 'get')
      .mockImplementation(() => room);
    jest.spyOn(globalThis, 'ResizeObserver').mockImplementation(callback => {
      resized = () => callback([], null as unknown as ResizeObserver);
      return { observe: jest.fn(), disconnect: jest.fn() } as any;
    });
    node = document.body.appendChild(document.createElement('div'));
    content = new WideContent(node, nullTranslator.load('prime_ext'));
  });

  afterEach(() => {
    content.dispose();
    node.remove();
    jest.restoreAllMocks();
  });

  it('is reached by the keyboard as long as there is no room for it', async () => {
    node.innerHTML = HTML;
    frameTables(node);
    const all = [
      ['group', 'Code'],
      ['group', 'Table'],
      ['group', 'Formula']
    ];
    expect(await reached()).toEqual(all);
    expect(node.querySelector('table')!.hasAttribute('role')).toBe(false);

    room = 400;
    resized();
    expect(await reached()).toEqual([]);
    expect(node.querySelector('[role], [aria-label]')).toBeNull();

    room = 300;
    resized();
    expect(await reached()).toEqual(all);
  });

  it('stays as it is while it is hidden', async () => {
    node.innerHTML = HTML;
    const before = await reached();
    room = 0;
    jest.spyOn(Element.prototype, 'scrollWidth', 'get').mockReturnValue(0);
    resized();
    expect(await reached()).toEqual(before);
  });

  it('keeps the focus that it has', async () => {
    node.innerHTML = HTML;
    await reached();
    node.querySelector('pre')!.focus();
    room = 400;
    resized();
    expect(await reached()).toEqual([['group', 'Code']]);
    expect(document.activeElement).toBe(node.querySelector('pre'));
  });

  it('is found when it comes later, as formulas do', async () => {
    node.innerHTML = '<p>$x$</p>';
    expect(await reached()).toEqual([]);
    node.innerHTML = '<p><mjx-container>x</mjx-container></p>';
    expect(await reached()).toEqual([['group', 'Formula']]);
  });
});
