const PREFIX = 'prime_ext:draft:';

/**
 * Unsent text by notebook, in the browser's own storage: it is there after a reload at once, and
 * never leaves the browser.
 */
export class Drafts {
  constructor(
    private readonly _storage: Pick<
      Storage,
      'getItem' | 'setItem' | 'removeItem'
    >,
    private readonly _scope: string
  ) {}

  load(notebook: string): string {
    try {
      return this._storage.getItem(this._key(notebook)) ?? '';
    } catch {
      return '';
    }
  }

  save(notebook: string, text: string): void {
    try {
      if (text === '') {
        this._storage.removeItem(this._key(notebook));
      } else {
        this._storage.setItem(this._key(notebook), text);
      }
    } catch {
      // Storage is full or forbidden: the draft lives as long as the page.
    }
  }

  private _key(notebook: string): string {
    return `${PREFIX}${this._scope}${notebook}`;
  }
}
