import { ISharedCodeCell } from '@jupyter/ydoc';
import { DocumentRegistry } from '@jupyterlab/docregistry';
import { INotebookModel, NotebookModel } from '@jupyterlab/notebook';
import { ServerConnection } from '@jupyterlab/services';
import { ICell, ICodeCell, INotebookContent } from '@jupyterlab/nbformat';
import { PromiseDelegate } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import { INotebookOperation } from '../../api/frames';
import { Ack } from '../acknowledgements';
import { sourceHash } from '../hash';
import { IConflict } from '../mergeCells';
import { OpenNotebook } from '../openNotebook';
import { Loaded } from '../savedState';

const code = (id: string, source: string): ICodeCell => ({
  id,
  cell_type: 'code',
  source,
  metadata: {},
  outputs: [],
  execution_count: null
});

/** A document as far as the notebook looks at it, and a disk beneath it. */
class Document {
  constructor() {
    this.model.fromJSON({
      nbformat: 4,
      nbformat_minor: 5,
      metadata: {},
      cells: [code('a', '1')]
    });
    this.model.dirty = false;
  }

  readonly model = new NotebookModel();
  readonly saveState = new Signal<this, DocumentRegistry.SaveState>(this);
  readonly fileChanged = new Signal<this, unknown>(this);
  readonly path = 'work.ipynb';
  readonly localPath = 'work.ipynb';
  isDisposed = false;
  contentsModel = {
    hash: 'one' as string | undefined,
    writable: true,
    last_modified: '2026-01-01T00:00:00Z'
  };
  disk = {
    hash: 'one' as string | undefined,
    last_modified: '2026-01-01T00:00:00Z'
  };
  log: string[] = [];
  failure: Error | null = null;

  async save(): Promise<void> {
    this.saveState.emit('started');
    if (this.failure) {
      this.saveState.emit('failed');
      throw this.failure;
    }
    this.log.push('save');
    this.model.dirty = false;
    this.saveState.emit('completed');
  }

  async revert(): Promise<void> {
    this.log.push('revert');
    const here = this.model.toJSON() as INotebookContent;
    await this.fetched;
    this.model.fromJSON({
      ...here,
      cells: this.cells ?? here.cells,
      metadata: { tags: ['disk'] },
      ...this.file
    });
  }

  /** The cells on the disk, where they are not those in the page. */
  cells: ICell[] | null = null;
  /** What else is in the file. */
  file: Partial<INotebookContent> = {};
  /** Resolves when the file has come. */
  fetched: Promise<void> = Promise.resolve();

  get = async (): Promise<any> => this.disk;
}

describe('OpenNotebook', () => {
  let document: Document;
  let revealed: number[];
  let letGo: string[];
  let told: IConflict[];
  let dismissed: number;
  let toldBehind: number;
  let versions: string[];
  let notebook: OpenNotebook;

  beforeEach(() => {
    document = new Document();
    revealed = [];
    letGo = [];
    told = [];
    dismissed = 0;
    toldBehind = 0;
    notebook = opened(null);
  });

  function opened(loaded: Loaded | null): OpenNotebook {
    const notebook = new OpenNotebook(
      document as unknown as DocumentRegistry.IContext<INotebookModel>,
      document,
      {
        reveal: index => revealed.push(index),
        letGo: cellId => letGo.push(cellId),
        tell: conflicts => told.push(...conflicts),
        tellBehind: () => {
          toldBehind++;
          return () => dismissed++;
        }
      },
      loaded
    );
    versions = [];
    notebook.versionChanged.connect((_, how) => versions.push(how));
    return notebook;
  }

  afterEach(() => {
    document.model.dispose();
  });

  const sources = () =>
    document.model.sharedModel.cells.map(cell => cell.source);
  const insert = (id: string) =>
    ({
      op: 'insert_cell',
      cell_id: id,
      source: id,
      cell_type: 'code',
      after: null
    }) as const;
  const error = (ack: Ack) => ack.error?.code;

  it('drops late outputs of a run if the cell was run again', async () => {
    const start = {
      op: 'run_start',
      cell_id: 'a',
      run_id: 'r',
      expected_hash: null
    } as const;
    const end = {
      op: 'run_end',
      cell_id: 'a',
      run_id: 'r',
      execution_count: 1,
      status: 'ok'
    } as const;
    const late = {
      op: 'late_outputs' as const,
      cell_id: 'a',
      execution_count: 1,
      base: 0,
      clear: false,
      updates: [],
      ending: null,
      outputs: []
    } satisfies INotebookOperation;
    notebook.ranHere('a');
    await notebook.apply('1', start);
    expect(letGo).toEqual([]);
    await notebook.apply('put', {
      op: 'run_outputs',
      cell_id: 'a',
      run_id: 'r',
      from: 0,
      outputs: []
    });
    expect(letGo).toEqual(['a']);
    expect(error(await notebook.apply('2', late))).toBe('run_superseded');
    await notebook.apply('3', end);
    const ack = await notebook.apply('4', late);
    expect(ack.result.after).toMatchObject({ outputs: 0, execution_count: 1 });
    notebook.ranHere('a');
    expect(error(await notebook.apply('5', late))).toBe('run_superseded');
  });

  it('applies, acknowledges and shows a change', async () => {
    const ack = await notebook.apply('1', insert('b'));
    expect(ack).toEqual({
      type: 'ack',
      op_id: '1',
      ok: true,
      result: {
        before: null,
        after: {
          source: 'b',
          cell_type: 'code',
          index: 1,
          prev: 'a',
          next: null
        }
      }
    });
    expect(revealed).toEqual([1]);
  });

  it('applies an operation once, however often it is sent', async () => {
    const edit = {
      op: 'edit_cell',
      cell_id: 'a',
      source: '2',
      expected_hash: sourceHash('1')
    } as const;
    const acks = [await notebook.apply('1', edit)];
    document.model.sharedModel.getCell(0).setSource('typed since');
    acks.push(await notebook.apply('1', edit));
    expect(acks[0]).toEqual(acks[1]);
    expect(sources()).toEqual(['typed since']);
  });

  it('forgets old large acknowledgements, but none that the server may ask for again', async () => {
    const large = ['b', 'c', 'd', 'e'];
    const remove = (id: string) =>
      notebook.apply(`delete ${id}`, {
        op: 'delete_cell',
        cell_id: id,
        expected_hash: sourceHash(id)
      });
    for (const id of large) {
      await notebook.apply(`insert ${id}`, {
        ...insert(id),
        cell: { metadata: { large: 'x'.repeat(5_000_000) } }
      });
    }
    const acks = await Promise.all(large.map(remove));
    expect(acks.map(ack => ack.ok)).toEqual([true, true, true, true]);
    // The server has gone on since the first deletions, and so has received these answers.
    expect(error(await remove('b'))).toBe('cell_not_found');
    expect(await remove('d')).toBe(acks[2]);
    expect(await remove('e')).toBe(acks[3]);

    for (let count = 0; count < 60; count++) {
      await notebook.apply(`save ${count}`, { op: 'save' });
    }
    expect(document.log).toHaveLength(60);
    await notebook.apply('save 0', { op: 'save' });
    await notebook.apply('save 59', { op: 'save' });
    expect(document.log).toHaveLength(61);
  });

  it('applies operations in order', async () => {
    const acks = ['b', 'c', 'd'].map(id => notebook.apply(id, insert(id)));
    await Promise.all(acks);
    expect(sources()).toEqual(['1', 'b', 'c', 'd']);
  });

  it('reports a conflict with the current source of the cell', async () => {
    const ack = await notebook.apply('1', {
      op: 'delete_cell',
      cell_id: 'a',
      expected_hash: sourceHash('other')
    });
    expect(ack.ok).toBe(false);
    expect(ack.error).toMatchObject({ code: 'cell_conflict', source: '1' });
  });

  it('applies further operations after a failure', async () => {
    await notebook.apply('1', { op: 'move_cell', cell_id: 'x', after: '' });
    expect((await notebook.apply('2', insert('b'))).ok).toBe(true);
  });

  it('trusts outputs of the kernel', async () => {
    const cell = document.model.cells.get(0);
    cell.trusted = false;
    await notebook.apply('1', {
      op: 'run_start',
      cell_id: 'a',
      run_id: 'r',
      expected_hash: sourceHash('1')
    });
    expect(cell.trusted).toBe(false);
    await notebook.apply('2', {
      op: 'run_outputs',
      cell_id: 'a',
      run_id: 'r',
      from: 0,
      outputs: []
    });
    expect(cell.trusted).toBe(true);
    expect(cell.getMetadata('trusted')).toBe(true);
  });

  it('restores the outputs when a run is undone with its source', async () => {
    const cell = document.model.cells.get(0) as any;
    const before = {
      output_type: 'stream' as const,
      name: 'stdout',
      text: 'before\n'
    };
    cell.sharedModel.setOutputs([{ ...before, text: 'agent\n' }]);
    await notebook.apply('1', {
      op: 'edit_cell',
      cell_id: 'a',
      source: '2',
      expected_hash: sourceHash('1'),
      outputs: [before],
      execution_count: 7,
      trusted: false
    });
    expect(sources()).toEqual(['2']);
    expect(cell.outputs.toJSON()).toEqual([before]);
    expect(cell.executionCount).toBe(7);
    expect(cell.trusted).toBe(false);
  });

  it('saves the notebook', async () => {
    expect((await notebook.apply('1', { op: 'save' })).ok).toBe(true);
    expect(document.log).toEqual(['save']);
  });

  it('reports its own save, which JupyterLab also signals as a change of the file', async () => {
    document.model.sharedModel.getCell(0).setSource('typed');
    document.saveState.emit('started');
    document.contentsModel.hash = 'two';
    document.fileChanged.emit({});
    document.saveState.emit('completed');
    await Promise.resolve();
    expect(versions).toEqual(['saved']);
  });

  it('does not overwrite a change on disk', async () => {
    document.disk.hash = 'two';
    const ack = await notebook.apply('1', { op: 'save' });
    expect(error(ack)).toBe('save_conflict');
    expect(document.log).toEqual([]);
    // The user is told once of this version, and can look at it.
    await notebook.apply('2', { op: 'save' });
    expect(toldBehind).toBe(1);
    const here = document.model.toJSON() as INotebookContent;
    const content = { ...here, cells: [code('a', 'by git')] };
    document.get = async () => ({ ...document.disk, content });
    expect(await notebook.compare()).toEqual([
      { id: 'a', mine: '1', theirs: 'by git' }
    ]);
  });

  it('compares modification times if the server has no hashes', async () => {
    document.disk.hash = undefined;
    document.disk.last_modified = '2026-01-01T00:00:00.400Z';
    expect((await notebook.apply('1', { op: 'save' })).ok).toBe(true);
    document.disk.last_modified = '2026-01-01T00:01:00Z';
    expect(error(await notebook.apply('2', { op: 'save' }))).toBe(
      'save_conflict'
    );
  });

  it('leaves the saving of a collaborative document to the server', async () => {
    Object.defineProperty(document.model, 'collaborative', { value: true });
    document.save = jest.fn();
    document.model.dirty = true;
    const saved = notebook.apply('1', { op: 'save' });
    document.model.dirty = false;
    expect((await saved).ok).toBe(true);
    expect(document.save).not.toHaveBeenCalled();
  });

  it('waits for the server to report that it saved a collaborative document', async () => {
    Object.defineProperty(document.model, 'collaborative', { value: true });
    document.model.dirty = true;
    let looks = 0;
    document.get = async () => {
      looks++;
      return {
        ...document.disk,
        hash: looks < 3 ? 'saved by the server' : 'one'
      };
    };
    expect((await notebook.apply('1', { op: 'save' })).ok).toBe(true);
    expect(looks).toBe(3);
    document.model.dirty = true;
    document.get = async () => ({ ...document.disk, hash: 'by git' });
    expect(error(await notebook.apply('2', { op: 'save' }))).toBe(
      'save_conflict'
    );
  }, 20_000);

  it('reports a failed save', async () => {
    document.failure = new Error('Disk full');
    const ack = await notebook.apply('1', { op: 'save' });
    expect(error(ack)).toBe('save_failed');
    expect(ack.error!.message).toBe('Disk full');
    document.contentsModel.writable = false;
    expect(error(await notebook.apply('2', { op: 'save' }))).toBe(
      'save_failed'
    );
  });

  it('distinguishes a missing file from a failing server', async () => {
    const { ResponseError } = ServerConnection;
    for (const [status, code] of [
      [404, 'file_missing'],
      [500, 'save_failed']
    ] as const) {
      document.get = async () => {
        throw new ResponseError({ status, statusText: '' } as Response);
      };
      expect(error(await notebook.apply(code, { op: 'save' }))).toBe(code);
    }
    expect(document.log).toEqual([]);
  });

  it('reports that the notebook was closed', async () => {
    document.isDisposed = true;
    expect(error(await notebook.apply('1', insert('b')))).toBe(
      'notebook_not_open'
    );
  });

  it('counts changes during a save as unsaved', async () => {
    document.saveState.emit('started');
    await notebook.apply('1', insert('b'));
    document.model.dirty = false;
    document.saveState.emit('completed');
    expect(document.model.dirty).toBe(true);
    expect(document.log).toEqual([]);
  });

  it('saves changes of the agent that came while the user was asked which version to keep', async () => {
    document.disk.hash = 'two';
    document.saveState.emit('started');
    await notebook.apply('1', insert('b'));
    const ack = await notebook.apply('2', { op: 'save' });
    expect(error(ack)).toBe('save_conflict');
    // The person says: overwrite.
    document.contentsModel.hash = 'two';
    document.model.dirty = false;
    document.saveState.emit('completed');
    await notebook.apply('3', { op: 'read', cell_id: 'b' });
    expect(document.log).toEqual(['save']);
    expect(document.model.dirty).toBe(false);
  });

  describe('merging a version that the server wrote with unsaved changes', () => {
    const server = { written: 'two' };
    const cell = (index: number) =>
      document.model.sharedModel.getCell(index) as ISharedCodeCell;

    beforeEach(() => {
      document.disk.hash = 'two';
      document.model.sharedModel.getCell(0).setSource('typed');
    });

    it('merges into the existing cells', async () => {
      document.cells = [code('a', '1'), code('b', 'by the agent')];
      const before = cell(0);
      await notebook.refresh(server);
      expect(sources()).toEqual(['typed', 'by the agent']);
      expect(cell(0)).toBe(before);
      expect(document.model.dirty).toBe(true);
      expect(told).toEqual([]);
      // Lab has loaded the file, and loads it as ever from now on.
      expect(document.log).toEqual(['revert']);
      document.cells = [code('c', 'other')];
      await document.revert();
      expect(sources()).toEqual(['other']);
    });

    it('merges if the server did not follow the page from the start', async () => {
      const { metadata } = document.model;
      document.model.setMetadata('language_info', { name: 'x' });
      notebook = opened({ cells: [code('a', '1')], metadata });
      document.cells = [code('a', '1'), code('b', 'by the agent')];
      document.file = { metadata };
      await notebook.refresh(server);
      expect(sources()).toEqual(['typed', 'by the agent']);
      expect(document.model.dirty).toBe(true);
      expect(document.model.getMetadata('language_info')).toEqual({
        name: 'x'
      });
      expect(told).toEqual([]);
    });

    it('merges again with later changes', async () => {
      document.cells = [code('a', '1'), code('b', '2')];
      await notebook.refresh(server);
      document.contentsModel.hash = 'two';
      document.disk.hash = 'three';
      document.cells = [code('a', '1'), code('b', '3')];
      await notebook.refresh({ written: 'three' });
      expect(sources()).toEqual(['typed', '3']);
      expect(told).toEqual([]);
    });

    it('does not replace typed text', async () => {
      document.cells = [code('a', 'by the agent')];
      await notebook.refresh(server);
      expect(sources()).toEqual(['typed']);
      expect(told).toEqual([
        { id: 'a', mine: 'typed', theirs: 'by the agent' }
      ]);
    });

    it('does not merge if another program has written as well', async () => {
      document.cells = [code('a', '1'), code('b', '2')];
      await notebook.refresh({ written: null });
      await notebook.refresh({ written: 'one and a half' });
      expect(sources()).toEqual(['typed']);
      expect(document.log).toEqual([]);
    });

    it('reports once that it could not merge', async () => {
      const missing = { op: 'read', cell_id: 'b' } as const;
      notebook.tellBehind();
      expect(toldBehind).toBe(0);
      await notebook.refresh({ written: null });
      notebook.tellBehind();
      notebook.tellBehind();
      expect(notebook.behind).toBe('two');
      expect(toldBehind).toBe(1);
      const ack = await notebook.apply('1', missing);
      expect(ack.error).toMatchObject({ code: 'cell_not_found', behind: true });
      // The person says: overwrite.
      document.contentsModel.hash = 'three';
      await document.save();
      expect(notebook.behind).toBeNull();
      expect(dismissed).toBe(1);
      expect((await notebook.apply('2', missing)).error).not.toHaveProperty(
        'behind'
      );
      document.disk.hash = 'four';
      document.model.sharedModel.getCell(0).setSource('typed again');
      document.model.dirty = true;
      await notebook.refresh({ written: null });
      notebook.tellBehind();
      expect(toldBehind).toBe(2);
    });

    it('lets changes be saved that the agent could not save', async () => {
      const ack = await notebook.apply('1', { op: 'save' });
      expect(error(ack)).toBe('save_conflict');
      document.cells = [code('a', '1'), code('b', 'by another page')];
      document.revert = async () => {
        await Document.prototype.revert.call(document);
        document.contentsModel.hash = 'two';
      };
      await notebook.refresh(server);
      await notebook.apply('2', { op: 'read', cell_id: 'b' });
      expect(document.log).toEqual(['revert', 'save']);
      expect(document.model.dirty).toBe(false);
    });

    it('merges with text typed since the user loaded the file', async () => {
      document.cells = [code('a', 'loaded'), code('b', '2')];
      await document.revert();
      document.contentsModel.hash = 'two';
      document.fileChanged.emit({});
      await Promise.resolve();
      expect(versions).toEqual(['loaded']);
      document.model.sharedModel.getCell(1).setSource('typed');
      document.model.dirty = true;
      document.disk.hash = 'three';
      document.cells = [code('a', 'by the agent'), code('b', '2')];
      await notebook.refresh({ written: 'three' });
      expect(sources()).toEqual(['by the agent', 'typed']);
      expect(told).toEqual([]);
      expect(versions).toEqual(['loaded', 'loaded']);
    });

    it('does not merge if the cells have no stable ids', async () => {
      (document.model.sharedModel as any).nbformat_minor = 4;
      document.saveState.emit('started');
      document.saveState.emit('completed');
      document.model.sharedModel.getCell(0).setSource('typed since');
      document.model.dirty = true;
      await notebook.refresh(server);
      expect(sources()).toEqual(['typed since']);
      expect(document.log).toEqual([]);
    });

    it('is all that is left to save if a save was under way', async () => {
      document.saveState.emit('started');
      document.cells = [code('a', 'typed'), code('b', '2')];
      await notebook.refresh(server);
      expect(document.model.dirty).toBe(false);
      // The person says: overwrite.
      document.saveState.emit('completed');
      expect(document.model.dirty).toBe(true);
    });

    const start = {
      op: 'run_start',
      cell_id: 'a',
      run_id: 'r',
      expected_hash: null
    } as const;

    it('ends a run, with its outputs', async () => {
      await notebook.apply('1', start);
      const stream = { output_type: 'stream', name: 'stdout', text: 'x\n' };
      document.cells = [
        {
          ...code('a', '1'),
          outputs: [stream] as any,
          execution_count: 3,
          metadata: { trusted: true }
        }
      ];
      await notebook.refresh({ ...server, running: ['a'] });
      expect(cell(0).getOutputs()).toEqual([stream]);
      expect(cell(0).execution_count).toBe(3);
      expect(cell(0).executionState).toBe('idle');
      expect(document.model.cells.get(0).trusted).toBe(true);
      expect(sources()).toEqual(['typed']);
    });

    it('ends a run without outputs in the file, unless it goes on', async () => {
      await notebook.apply('1', start);
      document.disk.hash = 'one';
      await notebook.refresh({ running: ['a'] });
      expect(cell(0).executionState).toBe('running');
      await notebook.refresh({ running: [] });
      expect(cell(0).executionState).toBe('idle');
    });

    it('shows a run that another page is sent, until it has ended', async () => {
      const waiting = { ...server, held: false };
      document.cells = [code('a', '1'), code('b', '2')];
      await notebook.refresh({ ...waiting, running: ['b'] });
      expect(cell(1).executionState).toBe('running');
      // Its outputs so far were saved.
      const stream = { output_type: 'stream', name: 'stdout', text: 'x\n' };
      document.cells = [
        code('a', '1'),
        { ...code('b', '2'), outputs: [stream] as any }
      ];
      document.disk.hash = 'three';
      await notebook.refresh({ ...waiting, written: 'three', running: ['b'] });
      expect(cell(1).getOutputs()).toEqual([stream]);
      expect(cell(1).executionState).toBe('running');
      await notebook.refresh({ ...waiting, running: [] });
      expect(cell(1).executionState).toBe('idle');
    });

    it('does not end a run of the user that follows it', async () => {
      const waiting = { held: false };
      document.disk.hash = 'one';
      await notebook.refresh({ ...waiting, running: ['a'] });
      cell(0).executionState = 'running';
      notebook.ranHere('a');
      await notebook.refresh({ ...waiting, running: [] });
      expect(cell(0).executionState).toBe('running');
    });

    it('leaves a run alone that goes on', async () => {
      await notebook.apply('1', start);
      document.cells = [code('b', '2'), code('a', '1')];
      await notebook.refresh({ ...server, running: ['a'] });
      expect(sources()).toEqual(['2', 'typed']);
      expect(cell(1).executionState).toBe('running');
    });
  });

  describe('loading a change on disk', () => {
    const type = (source: string): void =>
      document.model.sharedModel.getCell(0).setSource(source);

    beforeEach(() => {
      document.disk.hash = 'two';
    });

    it('loads the file if it has changed', async () => {
      await notebook.refresh();
      expect(document.log).toEqual(['revert']);
      document.disk.hash = 'one';
      await notebook.refresh();
      expect(document.log).toEqual(['revert']);
    });

    it('does not replace unsaved cells', async () => {
      type('typed');
      await notebook.refresh();
      document.failure = new Error('The disk is full.');
      await document.save().catch(() => undefined);
      await notebook.refresh();
      expect(document.log).toEqual([]);
      document.failure = null;
      await document.save();
      await notebook.refresh();
      expect(document.log).toEqual(['save', 'revert']);
    });

    it('does not replace text typed during a save', async () => {
      type('typed');
      document.saveState.emit('started');
      type('typed meanwhile');
      document.saveState.emit('completed');
      await notebook.refresh();
      expect(document.log).toEqual([]);
    });

    /** The file changes on the disk, and `work` is done in the page before it has come. */
    const load = async (
      cells: ICell[] | null,
      work: () => unknown = () => undefined
    ): Promise<void> => {
      const fetched = new PromiseDelegate<void>();
      document.fetched = fetched.promise;
      document.cells = cells;
      const refreshed = notebook.refresh();
      // Until the file has been asked for.
      await new Promise(resolve => setTimeout(resolve));
      try {
        await work();
        fetched.resolve();
      } catch (reason) {
        fetched.reject(reason);
      }
      await refreshed;
      document.contentsModel.hash = document.disk.hash;
    };
    const cell = (index: number) =>
      document.model.sharedModel.getCell(index) as ISharedCodeCell;
    const output = (text: string) => ({
      output_type: 'display_data' as const,
      data: { 'text/html': text },
      metadata: {}
    });
    const shown = (id: string, text: string, trusted: boolean): ICodeCell => ({
      ...code(id, '1'),
      outputs: [output(text)],
      execution_count: 1,
      metadata: { trusted }
    });

    it('updates the existing cells, each time the file changes', async () => {
      const before = cell(0);
      for (const source of ['2', '3']) {
        document.disk.hash = source;
        await load([code('a', source), code('b', 'more')]);
        expect(sources()).toEqual([source, 'more']);
        expect(document.model.dirty).toBe(false);
      }
      expect(cell(0)).toBe(before);
    });

    it('keeps what is inserted, deleted, moved and typed while the file is loaded', async () => {
      const { sharedModel } = document.model;
      document.disk.hash = 'before';
      await load([code('a', '1'), code('b', '2'), code('c', '3')]);
      document.disk.hash = 'two';
      await load(
        [code('a', '1'), code('b', '2'), code('c', 'on disk'), code('d', '4')],
        () => {
          sharedModel.deleteCell(0);
          sharedModel.moveCell(1, 0);
          sharedModel.insertCell(1, code('n', 'new'));
          cell(2).setSource('typed');
        }
      );
      expect(sources()).toEqual(['on disk', '4', 'new', 'typed']);
      expect(told).toEqual([]);
      // It has not been saved: nothing is taken over again.
      expect(document.model.dirty).toBe(true);
      document.disk.hash = 'three';
      await notebook.refresh();
      expect(document.log).toEqual(['revert', 'revert']);
    });

    it('reports a cell that was edited on both sides', async () => {
      await load([code('a', 'on disk')], () => type('typed'));
      expect(sources()).toEqual(['typed']);
      expect(told).toEqual([{ id: 'a', mine: 'typed', theirs: 'on disk' }]);
    });

    it.each([
      ['in the file', { nbformat_minor: 4 }],
      ['that differ', { cells: [code('b', '2'), code('b', '2')] }],
      ['that last', { metadata: { orig_nbformat: 4 } }]
    ])(
      'as Lab does where there are no ids %s, and keeps what is typed',
      async (_, file) => {
        document.file = file;
        const before = cell(0);
        await load([code('b', '2'), code('b', '2')], () => {
          type('mine');
          document.model.sharedModel.insertCell(0, code('n', 'new'));
          document.model.sharedModel.insertCell(0, code('e', ''));
        });
        expect(sources()).toEqual(['2', '2', 'new', 'mine']);
        expect(document.model.sharedModel.cells).not.toContain(before);
        expect(document.model.dirty).toBe(true);
        await notebook.refresh();
        expect(document.log).toEqual(['revert']);
      }
    );

    it('takes over metadata and format', async () => {
      document.model.setMetadata('mine', 'unsaved');
      document.file = {
        nbformat_minor: 6,
        metadata: { kernelspec: { name: 'ir', display_name: 'R' } }
      };
      await load(null);
      const { metadata, nbformatMinor } = document.model;
      expect(metadata).toEqual({
        kernelspec: { name: 'ir', display_name: 'R' },
        language_info: { name: '' },
        mine: 'unsaved'
      });
      expect(nbformatMinor).toBe(6);
      expect(document.model.dirty).toBe(true);
    });

    it('does not trust an output that the server does not trust', async () => {
      document.disk.hash = 'before';
      await load([shown('a', 'mine', true), shown('b', 'same', true)]);
      const [a, b] = [0, 1].map(i => document.model.cells.get(i) as any);
      const trusted: boolean[] = [];
      a.outputs.changed.connect(() => {
        const outputs = a.outputs.toJSON();
        if (JSON.stringify(outputs).includes('theirs')) {
          trusted.push(a.trusted);
        }
      });
      document.disk.hash = 'two';
      await load([
        shown('a', 'theirs', false),
        shown('b', 'same', false),
        shown('c', 'more', false)
      ]);
      expect(new Set(trusted)).toEqual(new Set([false]));
      // The output that is shown already is run neither again nor anew.
      expect([a.trusted, b.trusted]).toEqual([false, true]);
      expect(document.model.cells.get(2).trusted).toBe(false);
      expect(document.model.dirty).toBe(false);
      // It stays so when the cell is moved, or saved and loaded again.
      document.model.sharedModel.moveCell(0, 1);
      expect(document.model.cells.get(1).trusted).toBe(false);
      document.disk.hash = 'trusted there';
      document.model.dirty = false;
      await load([shown('b', 'same', true), shown('a', 'theirs', true)]);
      expect(document.model.cells.get(1).trusted).toBe(true);
    });

    it('keeps the outputs of a cell that the agent is running', async () => {
      const step = { cell_id: 'a', run_id: 'r' };
      await notebook.apply('1', {
        op: 'run_start',
        ...step,
        expected_hash: null
      });
      await load([shown('a', 'on disk', false), code('b', '2')]);
      expect(cell(0).executionState).toBe('running');
      const outputs = { op: 'run_outputs', ...step, from: 0 } as const;
      const ack = await notebook.apply('2', {
        ...outputs,
        outputs: [output('one')]
      });
      expect(ack.ok).toBe(true);
      expect(cell(0).getOutputs()).toEqual([output('one')]);
      await document.save();
      document.disk.hash = 'three';
      await load([shown('a', 'on disk', false)]);
      expect(cell(0).executionState).toBe('running');
      // The server sends all outputs again.
      const late = { ...outputs, from: 1, outputs: [output('two')] };
      expect(error(await notebook.apply('3', late))).toBe('run_unknown');
    });

    it('changes nothing if the file cannot be loaded', async () => {
      const before = cell(0);
      const failed = load([code('a', 'on disk')], () => {
        type('typed');
        throw new Error('The file is gone.');
      });
      await expect(failed).rejects.toThrow('gone');
      expect(cell(0)).toBe(before);
      expect(sources()).toEqual(['typed']);
      expect(document.model.dirty).toBe(true);
      document.fetched = Promise.resolve();
      document.cells = [code('b', '2')];
      await document.revert();
      expect(sources()).toEqual(['2']);
    });

    it('keeps changes that a save under way has yet to write', async () => {
      document.saveState.emit('started');
      await load([code('a', 'on disk')]);
      expect(document.model.dirty).toBe(false);
      // The person says: overwrite.
      document.saveState.emit('completed');
      expect(document.model.dirty).toBe(true);
    });

    it('keeps outputs hidden', async () => {
      const hidden = { ...code('a', '1'), metadata: { collapsed: true } };
      document.disk.hash = 'before';
      await load([hidden]);
      document.disk.hash = 'two';
      await load([{ ...hidden, source: '2' }]);
      expect(cell(0).getMetadata('collapsed')).toBe(true);
      expect(document.model.dirty).toBe(false);
    });

    it('does not replace text typed before a save that the user cancelled', async () => {
      type('typed');
      document.saveState.emit('started');
      await notebook.refresh();
      expect(document.log).toEqual([]);
    });

    it('keeps the kernel metadata that JupyterLab has set', async () => {
      document.model.setMetadata('language_info', { name: 'python' });
      expect(document.model.dirty).toBe(true);
      await notebook.refresh();
      expect(document.log).toEqual(['revert']);
      expect(document.model.metadata).toMatchObject({
        language_info: { name: 'python' },
        tags: ['disk']
      });
      type('typed');
      await notebook.refresh();
      expect(document.log).toEqual(['revert']);
    });
  });
});
