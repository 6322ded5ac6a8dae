import { IAttachment } from '../../api/attachments';
import {
  attachedTo,
  freeMention,
  hasMention,
  insertMention,
  mentionedAgain,
  mentionOf,
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
    ['line\n@x', 7, { start: 5, query: 'x' }],
    ['read @"da ta/a', 14, { start: 5, query: 'da ta/a' }],
    ['@\'a "b" c', 9, { start: 0, query: 'a "b" c' }],
    ['@"', 2, { start: 0, query: '' }],
    ['@größe/été', 10, { start: 0, query: 'größe/été' }],
    ['@we"ird', 7, { start: 0, query: 'we"ird' }],
    ['"@x', 3, { start: 1, query: 'x' }]
  ])('%j at %i', (text, cursor, trigger) => {
    expect(triggerAt(text, cursor)).toEqual({ ...trigger, end: cursor });
  });

  it.each([
    ['mail ada@example.org', 20],
    ['@df ', 4],
    ['@df', 0],
    ['plain', 5],
    ['@"a b"', 6],
    ['@"a b" and', 10],
    ['@"a\nb', 5],
    ['@@', 2]
  ])('is none in %j at %i', (text, cursor) => {
    expect(triggerAt(text, cursor)).toBeNull();
  });
});

describe('insertMention', () => {
  it('replaces the typed text and puts the cursor after it', () => {
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

  it('puts the cursor directly after a folder', () => {
    const at = triggerAt('@da', 3)!;
    expect(insertMention('@da', at, '@data/')).toEqual({
      text: '@data/',
      cursor: 6
    });
  });
});

describe('mentionOf', () => {
  it.each([
    ['data/a.csv', '@data/a.csv'],
    ['größe (1).csv', '@"größe (1).csv"'],
    ['it\'s "a" b.csv', '@`it\'s "a" b.csv`'],
    ['an "a".csv', '@\'an "a".csv\''],
    ['we"ird.csv', '@we"ird.csv'],
    ['"a".csv', '@\'"a".csv\''],
    ['ada@home.csv', '@"ada@home.csv"']
  ])('of %j is %j, alone in the text', (path, mention) => {
    expect(mentionOf(path)).toBe(mention);
    expect(hasMention(`see ${mention}, then`, mention)).toBe(true);
  });

  it('keeps the quote open after a folder', () => {
    const open = mentionOf('da ta', true);
    expect(open).toBe('@"da ta/');
    const begun = insertMention('see @da', triggerAt('see @da', 7)!, open);
    expect(begun).toEqual({ text: 'see @"da ta/', cursor: 12 });
    const typed = `${begun.text}b`;
    const trigger = triggerAt(typed, typed.length)!;
    expect(trigger.query).toBe('da ta/b');
    expect(insertMention(typed, trigger, mentionOf('da ta/b c.csv'))).toEqual({
      text: 'see @"da ta/b c.csv" ',
      cursor: 21
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

  it('are not the beginning of a longer word in any script', () => {
    expect(hasMention('see @café', '@caf')).toBe(false);
    expect(hasMention('see @cafe\u0301', '@cafe')).toBe(false);
    expect(hasMention('see @data.été', '@data')).toBe(false);
    expect(hasMention('é@data', '@data')).toBe(false);
  });

  it('have their attachment as long as they are in the text', () => {
    const file: IAttachment = { type: 'file', value: 'a.csv' };
    expect(attachedTo('plot @df', [df, file])).toEqual([df, file]);
    expect(attachedTo('plot @d', [df, file])).toEqual([file]);
  });

  it('are attached again, except selections and attachments without a mention', () => {
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

  it('are removed together with the space after them', () => {
    expect(withoutMention('plot @df by year, @df', '@df')).toBe(
      'plot by year, '
    );
    expect(withoutMention('@df @df2', '@df')).toBe('@df2');
  });

  it('are distinguished by a number', () => {
    expect(freeMention('@df', [])).toBe('@df');
    const second = { ...df, mention: '@df-2' };
    expect(freeMention('@df', [df, second])).toBe('@df-3');
  });
});
