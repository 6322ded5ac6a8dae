import { parsePartialObject } from '../partialJson';

describe('parsePartialObject', () => {
  it('reads whole JSON', () => {
    expect(parsePartialObject('{"a": [1, {"b": null}]}')).toEqual({
      a: [1, { b: null }]
    });
  });

  it.each([
    ['', null],
    ['{', {}],
    ['{"co', {}],
    ['{"code"', {}],
    ['{"code": ', {}],
    ['{"code": "', { code: '' }],
    ['{"code": "x = ', { code: 'x = ' }],
    ['{"code": "a\\n', { code: 'a\n' }],
    ['{"code": "a\\', { code: 'a' }],
    ['{"code": "\\u00e', { code: '' }],
    ['{"code": "say \\"hi', { code: 'say "hi' }],
    ['{"start": 12', {}],
    ['{"start": 12, ', { start: 12 }],
    ['{"on": tru', {}],
    ['{"kinds": ["a", "b', { kinds: ['a', 'b'] }],
    ['{"a": {"b": "c"}, "d', { a: { b: 'c' } }],
    ['[1, 2', null]
  ])('closes %s', (text, expected) => {
    expect(parsePartialObject(text)).toEqual(expected);
  });

  it('never loses what a shorter text already had', () => {
    const whole = JSON.stringify({
      cell_id: 'abc',
      source: 'df["x"] = "ü\\n{[" # ",\n',
      list: [1, 'two', { three: true }],
      after: null
    });
    let longest = 0;
    for (let end = 1; end <= whole.length; end++) {
      const source = parsePartialObject(whole.slice(0, end))?.source;
      const length = typeof source === 'string' ? source.length : 0;
      expect(length).toBeGreaterThanOrEqual(longest);
      longest = length;
    }
    expect(parsePartialObject(whole)).toEqual(JSON.parse(whole));
  });
});
