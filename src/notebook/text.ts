/**
 * Positions in a text at which it can be cut without splitting a surrogate pair.
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
