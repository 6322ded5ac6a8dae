import { IAttachment } from '../../api/attachments';
import { imageAttachment } from '../../mentions/images';
import { DraftMessage } from '../draftMessage';
import { Drafts } from '../drafts';
import { PanelStore } from '../store';

jest.mock('../../mentions/images');

describe('DraftMessage', () => {
  const df: IAttachment = { type: 'variable', value: 'df', mention: '@df' };
  const file: IAttachment = { type: 'file', value: 'a.csv' };
  const image: IAttachment = {
    type: 'image',
    value: 'i',
    mimetype: 'image/png'
  };

  let storage: Map<string, string>;
  let store: PanelStore;
  let message: DraftMessage;
  let submit: jest.Mock;
  let changed: jest.Mock;

  /** The panel on a notebook, on a page that was just loaded. */
  function load(notebook: string): void {
    const drafts = new Drafts(
      {
        getItem: key => storage.get(key) ?? null,
        setItem: (key, value) => void storage.set(key, value),
        removeItem: key => void storage.delete(key)
      },
      'hub/'
    );
    changed = jest.fn();
    store = new PanelStore(() => undefined, changed);
    message = new DraftMessage(store, drafts, submit, 'No image.');
    store.set({ notebook, ...message.load(notebook) });
  }

  beforeEach(() => {
    storage = new Map();
    submit = jest.fn(async () => undefined);
    load('a.ipynb');
  });

  it('is rendered within the event that changed it', () => {
    message.setText('h');
    expect(store.state.draft).toBe('h');
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it('is sent without surrounding blanks, and then empty', async () => {
    message.setText('  plot @d ');
    message.attach(df, file);
    await message.send();
    // An attachment that is no longer mentioned is not sent.
    expect(submit).toHaveBeenCalledWith('plot @d', [file]);
    expect(store.state).toMatchObject({ draft: '', attachments: [] });
  });

  it('is sent with an image alone, and put back as it was', async () => {
    submit.mockRejectedValueOnce(new Error('Too large.'));
    message.attach(df, image);
    await message.send();
    expect(submit).toHaveBeenCalledWith('', [image]);
    expect(store.state).toMatchObject({ draft: '', attachments: [image] });
    message.detach(image);
    await message.send();
    expect(submit).toHaveBeenCalledTimes(1);
  });

  it('is put back if it is refused, before text typed meanwhile', async () => {
    submit.mockImplementationOnce(async () => {
      message.setText('more');
      message.attach(df);
      throw new Error('Too large.');
    });
    message.setText('a long message');
    message.attach(file);
    await message.send();
    expect(store.state).toMatchObject({
      draft: 'a long message\nmore',
      attachments: [file, df]
    });
  });

  it('has each attachment once, and removes it with its mention', () => {
    message.setText('plot @df now');
    message.attach(df, file);
    message.attach({ ...file });
    expect(store.state.attachments).toHaveLength(2);
    message.detach(store.state.attachments[0]);
    expect(store.state).toMatchObject({
      draft: 'plot now',
      attachments: [file]
    });
  });

  it('keeps an image for the notebook that it was pasted for', async () => {
    const show = (notebook: string): void =>
      store.set({ notebook, ...message.load(notebook) });
    (imageAttachment as jest.Mock).mockResolvedValue(image);
    message.attach(df);
    await message.attachImages([new File([], 'i')]);
    const pasting = message.attachImages([new File([], 'i')]);
    show('b.ipynb');
    await pasting;
    expect(store.state.attachments).toEqual([]);
    show('a.ipynb');
    expect(store.state.attachments).toEqual([df, image, image]);
    message.detach(store.state.attachments[0]);
    show('b.ipynb');
    show('a.ipynb');
    expect(store.state.attachments).toEqual([image, image]);
  });

  it('is kept after a reload, except images', () => {
    message.setText('plot @df');
    message.attach(df, image);
    load('b.ipynb');
    expect(store.state).toMatchObject({ draft: '', attachments: [] });
    load('a.ipynb');
    expect(store.state).toMatchObject({ draft: 'plot @df', attachments: [df] });
  });

  it('follows a renamed notebook', () => {
    const cell = { type: 'notebook', value: 'a.ipynb', cells: [{ id: 'c' }] };
    message.setText('this cell');
    message.attach(cell as IAttachment);
    store.set({ notebook: 'b.ipynb' });
    message.renamed('a.ipynb');
    load('b.ipynb');
    expect(store.state).toMatchObject({
      draft: 'this cell',
      attachments: [{ ...cell, value: 'b.ipynb' }]
    });
  });
});
