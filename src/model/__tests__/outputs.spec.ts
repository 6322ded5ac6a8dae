import { firstSentence } from '../outputs';

describe('firstSentence', () => {
  it.each([
    [
      "There is no 'a.csv'. Look with list_files.",
      "There is no 'a.csv'.",
      'Look with list_files.'
    ],
    ['Not saved', 'Not saved', ''],
    ['Two lines\nof text.', 'Two lines', 'of text.'],
    ['', '', '']
  ])('of %j', (text, first, rest) => {
    expect(firstSentence(text)).toEqual([first, rest]);
  });
});
