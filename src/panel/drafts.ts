import { IAttachment } from '../api/attachments';

const PREFIX = 'prime_ext:draft:';

/** Behind the name of a notebook: what is attached to its draft. */
const ATTACHED = '#attached';

/**
 * Unsent text and what is attached to it, by notebook, in the browser's own storage: it is there
 * after a reload at once, and never leaves the browser.
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
    return this._read(this._key(notebook));
  }

  save(notebook: string, text: string): void {
    this._write(this._key(notebook), text);
  }

  loadAttachments(notebook: string): IAttachment[] {
    try {
      return JSON.parse(this._read(this._key(notebook) + ATTACHED) || '[]');
    } catch {
      return [];
    }
  }

  /** Images are left out: they are larger than the storage. */
  saveAttachments(notebook: string, attachments: readonly IAttachment[]): void {
    const kept = attachments.filter(({ type }) => type !== 'image');
    this._write(
      this._key(notebook) + ATTACHED,
      kept.length === 0 ? '' : JSON.stringify(kept)
    );
  }

  private _read(key: string): string {
    try {
      return this._storage.getItem(key) ?? '';
    } catch {
      return '';
    }
  }

  private _write(key: string, value: string): void {
    try {
      if (value === '') {
        this._storage.removeItem(key);
      } else {
        this._storage.setItem(key, value);
      }
    } catch {
      // Storage is full or forbidden: the draft lives as long as the page.
    }
  }

  private _key(notebook: string): string {
    return `${PREFIX}${this._scope}${notebook}`;
  }
}
