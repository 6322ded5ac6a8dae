import { IAttachment } from '../api/attachments';
import { ApiError } from '../api/rest';
import { imageAttachment } from '../mentions/images';
import {
  attachedTo,
  isSame,
  isSendable,
  withoutMention
} from '../mentions/text';
import { Drafts } from './drafts';
import { IPanelState } from './state';
import { PanelStore } from './store';

/** The message in the composer: its text and its attachments. */
export class DraftMessage {
  /**
   * @param _submit - Sends a message. Rejects, after showing the reason, if sending fails.
   * @param _imageUnreadable - Error message for an image that the browser cannot read.
   */
  constructor(
    private readonly _store: PanelStore,
    private readonly _drafts: Drafts,
    private readonly _submit: (
      text: string,
      attachments: readonly IAttachment[]
    ) => Promise<void>,
    private readonly _imageUnreadable: string
  ) {}

  setText(draft: string): void {
    if (this._state.notebook !== null) {
      this._drafts.save(this._state.notebook, draft);
    }
    this._store.set({ draft });
    // React loses the cursor of a controlled text field that is updated late.
    this._store.changedNow();
  }

  attach(...attachments: IAttachment[]): void {
    const others = this._state.attachments.filter(
      known => !attachments.some(attachment => isSame(known, attachment))
    );
    this._setAttachments([...others, ...attachments]);
  }

  async attachImages(files: readonly File[]): Promise<void> {
    const { notebook } = this._state;
    const { place } = this._store;
    try {
      const images = await Promise.all(files.map(imageAttachment));
      if (notebook === this._state.notebook) {
        this.attach(...images);
      } else if (notebook !== null) {
        this._drafts.saveAttachments(notebook, [
          ...this._drafts.loadAttachments(notebook),
          ...images
        ]);
      }
    } catch {
      this._store.fail(
        new ApiError(0, 'image_unreadable', this._imageUnreadable),
        place
      );
    }
  }

  /** Remove an attachment, and its mention from the text. */
  detach(attachment: IAttachment): void {
    this._setAttachments(
      this._state.attachments.filter(known => known !== attachment)
    );
    if (attachment.mention !== undefined) {
      this.setText(withoutMention(this._state.draft, attachment.mention));
    }
  }

  /** Send the message. If sending fails, put it back into the composer, or into the draft. */
  async send(): Promise<void> {
    const text = this._state.draft.trim();
    const { notebook, attachments } = this._state;
    if (!isSendable(text, attachments) || notebook === null) {
      return;
    }
    const attached = attachedTo(text, attachments);
    this.setText('');
    this._setAttachments([]);
    try {
      await this._submit(text, attached);
    } catch {
      this.putBack(notebook, text, attached);
    }
  }

  /**
   * Put a sent message back into the draft of its notebook, before any text typed meanwhile. The
   * panel may show another notebook by now.
   */
  putBack(
    notebook: string,
    text: string,
    attachments: readonly IAttachment[]
  ): void {
    const isShown = notebook === this._state.notebook;
    const typed = isShown ? this._state : this.load(notebook);
    const draft = [text, typed.draft].filter(part => part !== '').join('\n');
    const attached = [...attachments, ...typed.attachments];
    if (isShown) {
      this.setText(draft);
      this._setAttachments(attached);
    } else {
      this._drafts.save(notebook, draft);
      this._drafts.saveAttachments(notebook, attached);
    }
  }

  /** Load the draft of a notebook. */
  load(notebook: string | null): Pick<IPanelState, 'draft' | 'attachments'> {
    return notebook === null
      ? { draft: '', attachments: [] }
      : {
          draft: this._drafts.load(notebook),
          attachments: this._drafts.loadAttachments(notebook)
        };
  }

  /** Move the draft after the current notebook was renamed; `before` is its old path. */
  renamed(before: string | null): void {
    const { notebook, draft, attachments } = this._state;
    if (notebook === null) {
      return;
    }
    if (before !== null) {
      this._drafts.save(before, '');
      this._drafts.saveAttachments(before, []);
    }
    this._drafts.save(notebook, draft);
    // Attached cells are still in the notebook.
    this._setAttachments(
      attachments.map(attachment =>
        attachment.value === before
          ? { ...attachment, value: notebook }
          : attachment
      )
    );
  }

  private _setAttachments(attachments: readonly IAttachment[]): void {
    const { notebook } = this._state;
    if (notebook !== null) {
      this._drafts.saveAttachments(notebook, attachments);
    }
    this._store.set({ attachments });
  }

  private get _state(): IPanelState {
    return this._store.state;
  }
}
