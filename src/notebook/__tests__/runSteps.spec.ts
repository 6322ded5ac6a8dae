import { YNotebook } from '@jupyter/ydoc';
import { NotebookModel } from '@jupyterlab/notebook';

import { sourceHash } from '../hash';
import { applyRunStep, Runs } from '../operations';
import { code, display, failure, notebook, stream } from './sharedNotebook';

describe('applyRunStep', () => {
  const start = {
    op: 'run_start' as const,
    cell_id: 'a',
    run_id: 'r',
    expected_hash: sourceHash('1')
  };
  const put = (from: number, ...outputs: any[]) => ({
    op: 'run_outputs' as const,
    cell_id: 'a',
    run_id: 'r',
    from,
    outputs
  });
  const end = (execution_count: number | null, status: string) => ({
    op: 'run_end' as const,
    cell_id: 'a',
    run_id: 'r',
    execution_count,
    status
  });

  it('shows a run from its start to its end', () => {
    const shared = notebook('1');
    const cell = code(shared, 0);
    const runs: Runs = new Map();
    cell.setOutputs([display('old')] as any);
    cell.execution_count = 3;
    const { before } = applyRunStep(shared, start, runs);
    expect(before!.source).toBe('1');
    expect(before!.cell).toMatchObject({
      outputs: [display('old')],
      execution_count: 3
    });
    expect(cell.executionState).toBe('running');
    expect(cell.getOutputs()).toEqual([display('old')]);
    expect(cell.execution_count).toBe(3);
    applyRunStep(shared, put(0), runs);
    expect(cell.getOutputs()).toEqual([]);
    expect(cell.execution_count).toBeNull();
    applyRunStep(shared, put(0, stream('a\n')), runs);
    applyRunStep(shared, put(0, stream('a\nb\n')), runs);
    applyRunStep(shared, put(1, display('x')), runs);
    applyRunStep(shared, put(1, display('y'), stream('c')), runs);
    expect(cell.getOutputs()).toEqual([
      stream('a\nb\n'),
      display('y'),
      stream('c')
    ]);
    expect(cell.executionState).toBe('running');
    applyRunStep(shared, end(4, 'ok'), runs);
    expect(cell.executionState).toBe('idle');
    expect(cell.execution_count).toBe(4);
  });

  it("shows the same in Lab's own model of the cell", () => {
    const model = new NotebookModel();
    model.fromJSON(notebook('1').toJSON());
    const shared = model.sharedModel as YNotebook;
    const runs: Runs = new Map();
    const shown = () => (model.cells.get(0) as any).outputs.toJSON();
    applyRunStep(shared, start, runs);
    applyRunStep(shared, put(0, stream('10 %')), runs);
    applyRunStep(shared, put(0, stream('20 %')), runs);
    expect(shown()).toEqual([stream('20 %')]);
    applyRunStep(shared, put(0, stream('20 % 🙂')), runs);
    applyRunStep(shared, put(0, stream('20 % 🙃')), runs);
    expect(shown()).toEqual([stream('20 % 🙃')]);
    applyRunStep(shared, put(0), runs);
    expect(shown()).toEqual([]);
    applyRunStep(shared, put(0, stream('20 %\n'), display('x')), runs);
    applyRunStep(shared, put(1, display('y'), display('z')), runs);
    expect(shown()).toEqual([stream('20 %\n'), display('y'), display('z')]);
    expect(code(shared, 0).getOutputs()).toEqual(shown());
    model.dispose();
  });

  it('leaves the cell of a run that never starts as it was', () => {
    const shared = notebook('1');
    const cell = code(shared, 0);
    const runs: Runs = new Map();
    cell.setOutputs([display('old')] as any);
    cell.execution_count = 3;
    cell.setMetadata('execution', { 'shell.execute_reply': 'then' });
    const before = cell.toJSON();
    applyRunStep(shared, start, runs);
    applyRunStep(shared, end(null, 'aborted'), runs);
    expect(cell.toJSON()).toEqual(before);
    expect(cell.executionState).toBe('idle');
    expect(runs.size).toBe(0);
  });

  it('inserts an output once, however often it is sent', () => {
    const shared = notebook('1');
    const cell = code(shared, 0);
    const inserted: string[] = [];
    cell.changed.connect((_, { outputsChange }) => {
      for (const change of outputsChange ?? []) {
        for (const output of [change.insert ?? []].flat() as any[]) {
          inserted.push(output.toJSON().data['text/plain']);
        }
      }
    });
    const runs: Runs = new Map();
    applyRunStep(shared, start, runs);
    applyRunStep(shared, put(0, display('x')), runs);
    applyRunStep(shared, put(0, display('x'), display('y')), runs);
    expect(inserted).toEqual(['x', 'y']);
    // The page was disconnected for too long, and the run is sent again.
    applyRunStep(shared, { ...start, expected_hash: null }, runs);
    applyRunStep(shared, put(0, display('x'), display('y')), runs);
    expect(inserted).toEqual(['x', 'y']);
    applyRunStep(shared, end(1, 'ok'), runs);
    expect(cell.getOutputs()).toEqual([display('x'), display('y')]);
  });

  it('inserts the outputs again when the cell is run again, even if they are equal', () => {
    const shared = notebook('1');
    const cell = code(shared, 0);
    const runs: Runs = new Map();
    cell.setOutputs([display('x')] as any);
    let inserted = 0;
    cell.changed.connect((_, { outputsChange }) => {
      inserted += (outputsChange ?? []).filter(change => change.insert).length;
    });
    applyRunStep(shared, start, runs);
    applyRunStep(shared, put(0, display('x')), runs);
    expect(inserted).toBe(1);
    expect(cell.getOutputs()).toEqual([display('x')]);
  });

  it('reports that the cell is no longer a code cell', () => {
    const shared = notebook('1');
    const runs: Runs = new Map();
    applyRunStep(shared, start, runs);
    shared.deleteCell(0);
    shared.insertCell(0, { id: 'a', cell_type: 'markdown', source: '1' });
    const { code, message } = failure(() =>
      applyRunStep(shared, put(0, display('x')), runs)
    );
    expect(code).toBe('not_a_code_cell');
    expect(message).toContain('markdown cell by now');
  });

  it('accepts the same step twice', () => {
    const shared = notebook('1');
    const runs: Runs = new Map();
    applyRunStep(shared, start, runs);
    applyRunStep(shared, put(0, stream('a'), display('x')), runs);
    applyRunStep(shared, put(0, stream('a'), display('x')), runs);
    expect(code(shared, 0).getOutputs()).toEqual([stream('a'), display('x')]);
  });

  it('starts over on a page that joins the run', () => {
    const shared = notebook('1');
    const runs: Runs = new Map();
    expect(
      failure(() => applyRunStep(shared, put(0, stream('a')), runs)).code
    ).toBe('run_unknown');
    applyRunStep(shared, { ...start, expected_hash: null }, runs);
    expect(
      failure(() => applyRunStep(shared, put(1, stream('a')), runs)).code
    ).toBe('run_unknown');
    applyRunStep(shared, put(0, stream('a')), runs);
    expect(code(shared, 0).getOutputs()).toEqual([stream('a')]);
  });

  it('does not run what the user has changed', () => {
    const shared = notebook('changed');
    code(shared, 0).setOutputs([display('old')] as any);
    expect(failure(() => applyRunStep(shared, start, new Map())).code).toBe(
      'cell_conflict'
    );
    expect(code(shared, 0).getOutputs()).toEqual([display('old')]);
  });

  it('does not add runs to the undo history', () => {
    const shared = notebook('1');
    const runs: Runs = new Map();
    const cell = shared.getCell(0);
    cell.clearUndoHistory();
    applyRunStep(shared, start, runs);
    applyRunStep(shared, put(0, display('x')), runs);
    expect(cell.canUndo()).toBe(false);
  });
});
