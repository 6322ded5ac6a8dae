import { CodeCellModel, MarkdownCellModel } from '@jupyterlab/cells';
import { nullTranslator } from '@jupyterlab/translation';

import { IAttachment } from '../../api/attachments';
import { cellReference, errorOf, filled, lastError, readable } from '../cells';
import { describeAttachment } from '../describe';
import { selectionOf } from '../selection';

const trans = nullTranslator.load('prime_ext');

function codeCell(source: string, count: number, ...outputs: any[]) {
  const cell = new CodeCellModel();
  cell.sharedModel.setSource(source);
  cell.outputs.fromJSON(outputs);
  cell.executionCount = count;
  return cell;
}

const FAILURE = {
  output_type: 'error',
  ename: 'KeyError',
  evalue: "'a'",
  traceback: ['one', 'two']
};
const PRINTED = { output_type: 'stream', name: 'stdout', text: 'done\n' };

describe('cells', () => {
  it('have failed if their last output says so', () => {
    expect(errorOf(codeCell('', 1, PRINTED, FAILURE))?.ename).toBe('KeyError');
    expect(errorOf(codeCell('', 1, FAILURE, PRINTED))).toBeNull();
    expect(errorOf(codeCell('', 1))).toBeNull();
    expect(errorOf(new MarkdownCellModel())).toBeNull();
    expect(errorOf(null)).toBeNull();
  });

  it('the one that was run last is the last error', () => {
    const cells = [
      codeCell('', 7, FAILURE),
      codeCell('', 3, FAILURE),
      codeCell('', 9, PRINTED)
    ];
    expect(lastError(cells)).toBe(0);
    expect(lastError([cells[2]])).toBe(-1);
  });

  it('are sent with their content at the time of sending', () => {
    const cell = codeCell('x = 1', 4, FAILURE);
    const attachment: IAttachment = {
      type: 'error',
      value: 'a.ipynb',
      cells: [cellReference(cell, 2)]
    };
    expect(attachment.cells[0].first_line).toBe('x = 1');
    cell.sharedModel.setSource('x = 2');
    expect(filled(attachment, [new MarkdownCellModel(), cell])).toEqual({
      type: 'error',
      value: 'a.ipynb',
      cells: [
        {
          id: cell.id,
          input_type: 'code',
          index: 1,
          source: 'x = 2',
          execution_count: 4,
          outputs: [{ ...FAILURE, traceback: ['one\ntwo'] }]
        }
      ]
    });
    // The server looks it up, and reports that it is gone.
    expect(filled(attachment, [])).toEqual({
      type: 'error',
      value: 'a.ipynb',
      cells: [{ id: cell.id, input_type: 'code', index: 2 }]
    });
  });

  it('are sent with their figures; long text is cut in the middle', () => {
    const [table, figure, text] = readable([
      {
        output_type: 'display_data',
        data: { 'text/html': '<table>', 'text/plain': ['a ', 'b'] }
      },
      {
        output_type: 'execute_result',
        data: { 'image/png': 'iVBO', 'image/svg+xml': '<svg>' }
      },
      { output_type: 'stream', name: 'stdout', text: 'x'.repeat(30_000) }
    ] as any);
    expect(table.data).toEqual({ 'text/plain': 'a b' });
    expect(figure.data).toEqual({ 'image/png': 'iVBO' });
    expect(text.text).toContain('[… 10000 characters …]');
    expect(text.text.length).toBeLessThan(20_100);
  });
});

describe('selectionOf', () => {
  const text = 'a = 1\nb = 2\nc = 3\n';

  it('counts lines and columns from 0, whichever end came first', () => {
    const selection = { start: [1, 0], end: [2, 1], content: 'b = 2\nc' };
    expect(selectionOf(text, 6, 13)).toEqual(selection);
    expect(selectionOf(text, 13, 6)).toEqual(selection);
  });

  it('excludes line breaks at its end', () => {
    expect(selectionOf(text, 0, 6)).toEqual({
      start: [0, 0],
      end: [0, 5],
      content: 'a = 1'
    });
  });

  it('is null if nothing is selected', () => {
    expect(selectionOf(text, 3, 3)).toBeNull();
    expect(selectionOf(text, 5, 6)).toBeNull();
  });
});

describe('describeAttachment', () => {
  const lines = { start: [2, 0], end: [4, 2] } as {
    start: [number, number];
    end: [number, number];
  };

  it.each<[IAttachment, string, string]>([
    [{ type: 'variable', value: 'df' }, 'variable', 'df'],
    [{ type: 'file', value: 'data/a.csv' }, 'file', 'a.csv'],
    [
      { type: 'file', value: 'data', mimetype: 'inode/directory' },
      'folder',
      'data/'
    ],
    [
      { type: 'file', value: 'lib/a.py', selection: lines },
      'selection',
      'a.py, lines 3–5'
    ],
    [{ type: 'notebook', value: 'x/a.ipynb' }, 'notebook', 'a.ipynb'],
    [
      { type: 'notebook', value: 'a.ipynb', cells: [{ id: 'c', index: 2 }] },
      'cell',
      'Cell 3'
    ],
    [
      {
        type: 'notebook',
        value: 'a.ipynb',
        cells: [{ id: 'c', index: 2, selection: { ...lines, end: [2, 4] } }]
      },
      'selection',
      'Cell 3, line 3'
    ],
    [
      { type: 'notebook', value: 'a.ipynb', cells: [{ id: 'c' }, { id: 'd' }] },
      'cell',
      '2 cells'
    ],
    [
      { type: 'error', value: 'a.ipynb', cells: [{ id: 'c', index: 0 }] },
      'error',
      'Error in cell 1'
    ]
  ])('%j', (attachment, kind, label) => {
    expect(describeAttachment(attachment, trans)).toMatchObject({
      kind,
      label
    });
  });
});
