import { IAttachment } from '../api/attachments';

const PREFIX = 'prime_ext:draft:';

/** Suffix of the key for the attachments of a draft. */
const ATTACHED = '#attached';

/**
 * Unsent text and attachments by notebook, in the browser's storage, so that they survive a reload
 * and never leave the browser. Images are too large for the storage and survive until a reload.
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

  loadAttachments(notebook: string): readonly IAttachment[] {
    const held = this._withImages.get(notebook);
    if (held) {
      return held;
    }
    try {
      return JSON.parse(this._read(this._key(notebook) + ATTACHED) || '[]');
    } catch {
      return [];
    }
  }

  saveAttachments(notebook: string, attachments: readonly IAttachment[]): void {
    const kept = attachments.filter(({ type }) => type !== 'image');
    if (kept.length < attachments.length) {
      this._withImages.set(notebook, attachments);
    } else {
      this._withImages.delete(notebook);
    }
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
      // If the storage is full or not available, the draft is lost on reload.
    }
  }

  private _key(notebook: string): string {
    return `${PREFIX}${this._scope}${notebook}`;
  }

  /** All attachments of the drafts that have images. */
  private readonly _withImages = new Map<string, readonly IAttachment[]>();
}
