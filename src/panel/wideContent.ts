import { TranslationBundle } from '@jupyterlab/translation';

/** Class of the frame that a wide table scrolls in. A table that scrolls itself is no table. */
const TABLE_FRAME = 'jp-prime-TableFrame';

/**
 * Lets the keyboard scroll the code blocks, tables and formulas of rendered Markdown, as long as
 * they are wider than there is room: others would be needless stops of the Tab key.
 *
 * They are groups, not regions: a long answer would have too many landmarks.
 */
export class WideContent {
  constructor(
    private readonly _rendered: HTMLElement,
    private readonly _trans: TranslationBundle
  ) {
    this._sizes = new ResizeObserver(() => this._checkSoon());
    this._sizes.observe(_rendered);
    // Formulas are set some time after the Markdown has been rendered.
    this._changes = new MutationObserver(() => this._checkSoon());
    this._changes.observe(_rendered, { childList: true, subtree: true });
  }

  dispose(): void {
    this._sizes.disconnect();
    this._changes.disconnect();
    cancelAnimationFrame(this._frame);
  }

  private _checkSoon(): void {
    cancelAnimationFrame(this._frame);
    this._frame = requestAnimationFrame(() => this._check());
  }

  private _check(): void {
    const room = this._rendered.clientWidth;
    if (room === 0) {
      // Hidden, for a moment, while the theme changes: its size will not be told if it stays.
      return;
    }
    const names: [selector: string, name: string][] = [
      ['pre', this._trans.__('Code')],
      [`.${TABLE_FRAME}`, this._trans.__('Table')],
      ['mjx-container', this._trans.__('Formula')]
    ];
    for (const [selector, name] of names) {
      this._rendered
        .querySelectorAll<HTMLElement>(selector)
        .forEach(element => {
          setReached(element, isWide(element, room) ? name : null);
        });
    }
  }

  private readonly _sizes: ResizeObserver;
  private readonly _changes: MutationObserver;
  private _frame = 0;
}

/** Put each table of rendered Markdown into a frame that scrolls. */
export function frameTables(rendered: HTMLElement): void {
  rendered.querySelectorAll('table').forEach(table => {
    const frame = document.createElement('div');
    frame.className = TABLE_FRAME;
    table.replaceWith(frame);
    frame.append(table);
  });
}

/** Whether an element is wider than the room that it has. */
function isWide(element: HTMLElement, room: number): boolean {
  // A formula in a line of text has no width of its own. Once it is reached, it is a block.
  return getComputedStyle(element).display === 'inline'
    ? element.offsetWidth > room
    : element.scrollWidth > element.clientWidth;
}

function setReached(element: HTMLElement, name: string | null): void {
  if (name !== null) {
    element.tabIndex = 0;
    element.setAttribute('role', 'group');
    element.setAttribute('aria-label', name);
  } else if (element !== document.activeElement) {
    for (const attribute of ['tabindex', 'role', 'aria-label']) {
      element.removeAttribute(attribute);
    }
  }
}
