import { YNotebook } from '@jupyter/ydoc';
import { NotebookModel } from '@jupyterlab/notebook';

import { applyLateOutputs } from '../operations';
import { code, display, failure, notebook, stream } from './sharedNotebook';

type Late = Parameters<typeof applyLateOutputs>[1];

describe('applyLateOutputs', () => {
  const late = (change: Partial<Late>): Late => ({
    op: 'late_outputs',
    cell_id: 'a',
    execution_count: 3,
    base: 0,
    clear: false,
    updates: [],
    ending: null,
    outputs: [],
    ...change
  });

  /** A cell after a run, in JupyterLab's model, which has to show the same. */
  function ran(...outputs: any[]) {
    const model = new NotebookModel();
    model.fromJSON(notebook('1').toJSON());
    const shared = model.sharedModel as YNotebook;
    const cell = code(shared, 0);
    cell.setOutputs(outputs);
    cell.execution_count = 3;
    const shown = () => {
      const lab = (model.cells.get(0) as any).outputs.toJSON();
      expect(lab).toEqual(cell.getOutputs());
      return lab;
    };
    const apply = (change: Partial<Late>, ranHere: string[] = []) =>
      applyLateOutputs(shared, late(change), new Set(ranHere)).after;
    return { cell, shown, apply };
  }

  it('adds to the outputs of the run', () => {
    const { cell, shown, apply } = ran(display('x'), stream('10 %'));
    const after = apply({
      base: 2,
      ending: '10 %',
      outputs: [stream('20 %\ndone\n'), display('y')]
    });
    expect(shown()).toEqual([
      display('x'),
      stream('20 %\ndone\n'),
      display('y')
    ]);
    expect(after).toMatchObject({ outputs: 3, execution_count: 3 });
    expect(cell.executionState).toBe('idle');
    apply({ base: 3, ending: null, outputs: [stream('more')] });
    apply({ base: 4, ending: 'more', outputs: [stream('more 🙂')] });
    expect(shown()[3]).toEqual(stream('more 🙂'));
  });

  it('updates displays in place', () => {
    const { shown, apply } = ran(display('x'), stream('a\n'), display('y'));
    const data = { 'text/plain': 'new' };
    apply({ base: 3, updates: [{ index: 0, data, metadata: {} }] });
    expect(shown()).toEqual([display('new'), stream('a\n'), display('y')]);
    // By now there is another kind of output at that position, or none.
    apply({ base: 3, updates: [{ index: 1, data, metadata: {} }] });
    apply({ base: 3, updates: [{ index: 7, data, metadata: {} }] });
    expect(shown()).toEqual([display('new'), stream('a\n'), display('y')]);
  });

  it('clears', () => {
    const { shown, apply } = ran(stream('old'), display('x'));
    apply({ clear: true, outputs: [stream('new')] });
    expect(shown()).toEqual([stream('new')]);
    expect(apply({ clear: true })).toMatchObject({ outputs: 0 });
    expect(shown()).toEqual([]);
  });

  it('adds to a cell that was cleared', () => {
    const { cell, shown, apply } = ran(display('x'), stream('10'));
    cell.setOutputs([]);
    cell.execution_count = null;
    const data = { 'text/plain': 'new' };
    const after = apply({
      base: 2,
      updates: [{ index: 0, data, metadata: {} }],
      ending: '10',
      outputs: [stream('10 % done')]
    });
    expect(shown()).toEqual([stream(' % done')]);
    expect(after).toMatchObject({ outputs: 1, execution_count: null });
  });

  it.each([
    ['is being run', { executionState: 'running' as const }, []],
    ['was run again', { execution_count: 4 }, []],
    ['was run here, which came to nothing', { execution_count: null }, ['a']]
  ])('is refused by a cell that %s', (_, since, ranHere) => {
    const { cell, apply } = ran();
    Object.assign(cell, since);
    const error = failure(() => apply({ outputs: [stream('late')] }, ranHere));
    expect(error.code).toBe('run_superseded');
    expect(cell.getOutputs()).toEqual([]);
  });

  it('is refused if there is no such cell, or it is not a code cell', () => {
    const { apply } = ran();
    expect(failure(() => apply({ cell_id: 'z' })).code).toBe('cell_not_found');
    const shared = notebook();
    shared.addCell({ id: 'a', cell_type: 'markdown', source: '' });
    expect(
      failure(() => applyLateOutputs(shared, late({}), new Set())).code
    ).toBe('not_a_code_cell');
  });
});
