/**
 * Cutting a text without splitting a surrogate pair: the server refuses half a pair.
 */

/** Return the length of the common prefix of two texts. */
export function commonStart(one: string, other: string): number {
  const shorter = Math.min(one.length, other.length);
  let start = 0;
  while (start < shorter && one[start] === other[start]) {
    start++;
  }
  return splitsPair(one, start) || splitsPair(other, start) ? start - 1 : start;
}

/** Whether a position lies between the halves of a surrogate pair. */
export function splitsPair(text: string, position: number): boolean {
  const before = text.charCodeAt(position - 1);
  const after = text.charCodeAt(position);
  return (
    before >= 0xd800 && before < 0xdc00 && after >= 0xdc00 && after < 0xe000
  );
}

/** Cut a long text in the middle, so that at most `end` characters are left at each end. */
export function cutMiddle(text: string, end: number): string {
  if (text.length <= 2 * end) {
    return text;
  }
  const from = splitsPair(text, end) ? end - 1 : end;
  const rest = text.length - end;
  const to = splitsPair(text, rest) ? rest + 1 : rest;
  return `${text.slice(0, from)}\n[… ${to - from} characters …]\n${text.slice(to)}`;
}

/** Return a multiline string of a notebook as one string. */
export function joined(text: unknown): string {
  return Array.isArray(text) ? text.join('') : String(text ?? '');
}
