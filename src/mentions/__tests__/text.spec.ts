import { IAttachment } from '../../api/attachments';
import {
  attachedTo,
  freeMention,
  hasMention,
  insertMention,
  mentionedAgain,
  triggerAt,
  withoutMention
} from '../text';

const df: IAttachment = { type: 'variable', value: 'df', mention: '@df' };

describe('triggerAt', () => {
  it.each([
    ['@', 1, { start: 0, query: '' }],
    ['plot @pen', 9, { start: 5, query: 'pen' }],
    ['plot @pen', 7, { start: 5, query: 'p' }],
    ['(@data/a', 8, { start: 1, query: 'data/a' }],
    ['line\n@x', 7, { start: 5, query: 'x' }]
  ])('%j at %i', (text, cursor, trigger) => {
    expect(triggerAt(text, cursor)).toEqual(trigger);
  });

  it.each([
    ['mail ada@example.org', 20],
    ['@df ', 4],
    ['@df', 0],
    ['plain', 5],
    ['@@', 2]
  ])('is none in %j at %i', (text, cursor) => {
    expect(triggerAt(text, cursor)).toBeNull();
  });
});

describe('insertMention', () => {
  it('replaces what was typed and puts the cursor behind', () => {
    const at = triggerAt('plot @pe', 8)!;
    expect(insertMention('plot @pe', at, '@penguins')).toEqual({
      text: 'plot @penguins ',
      cursor: 15
    });
  });

  it('adds no second space', () => {
    const at = triggerAt('plot @pe by year', 8)!;
    expect(insertMention('plot @pe by year', at, '@penguins')).toEqual({
      text: 'plot @penguins by year',
      cursor: 15
    });
  });

  it('goes on behind a folder', () => {
    const at = triggerAt('@da', 3)!;
    expect(insertMention('@da', at, '@data/')).toEqual({
      text: '@data/',
      cursor: 6
    });
  });
});

describe('mentions in the text', () => {
  it.each([
    ['plot @df', true],
    ['plot @df.', true],
    ['(@df)', true],
    ['plot @df, then', true],
    ['plot @df2', false],
    ['plot @df.csv', false],
    ['plot @df/a', false],
    ['x@df', false],
    ['plot df', false]
  ])('%j has @df: %s', (text, has) => {
    expect(hasMention(text, '@df')).toBe(has);
  });

  it('carry what they stand for as long as they are there', () => {
    const file: IAttachment = { type: 'file', value: 'a.csv' };
    expect(attachedTo('plot @df', [df, file])).toEqual([df, file]);
    expect(attachedTo('plot @d', [df, file])).toEqual([file]);
  });

  it('go along again, but for selections and what has no mention', () => {
    const selection = { start: [0, 0], end: [0, 1] } as any;
    expect(
      mentionedAgain([
        df,
        { type: 'file', value: 'a.csv' },
        { type: 'file', value: 'a.py', mention: '@selection', selection },
        {
          type: 'notebook',
          value: 'a.ipynb',
          mention: '@selection-2',
          cells: [{ id: 'c', selection }]
        }
      ])
    ).toEqual([df]);
  });

  it('are taken out with the space they had', () => {
    expect(withoutMention('plot @df by year, @df', '@df')).toBe(
      'plot by year, '
    );
    expect(withoutMention('@df @df2', '@df')).toBe('@df2');
  });

  it('are told apart by a number', () => {
    expect(freeMention('@df', [])).toBe('@df');
    const second = { ...df, mention: '@df-2' };
    expect(freeMention('@df', [df, second])).toBe('@df-3');
  });
});
