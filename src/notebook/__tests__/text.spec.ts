import { cutMiddle } from '../text';

describe('cutMiddle', () => {
  it('keeps the ends of a long text', () => {
    expect(cutMiddle('0123456789', 5)).toBe('0123456789');
    expect(cutMiddle('0123456789a', 2)).toBe('01\n[… 7 characters …]\n9a');
  });

  it.each(['😀'.repeat(9), `a${'😀'.repeat(9)}`, `${'😀'.repeat(9)}a`])(
    'does not split a character of %s',
    text => {
      for (let end = 1; end < 9; end++) {
        expect(cutMiddle(text, end)).not.toMatch(/\p{Surrogate}/u);
      }
    }
  );
});
