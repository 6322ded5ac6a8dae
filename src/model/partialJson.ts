/**
 * Parse the JSON text of an object that may be cut off anywhere. Open strings, arrays and objects
 * are closed; an incomplete key, escape or literal is dropped.
 *
 * @returns `null` if the text has no opening brace yet.
 */
export function parsePartialObject(
  text: string
): Record<string, unknown> | null {
  const whole = tryParse(text);
  if (whole) {
    return whole;
  }
  // Brackets that close all open objects and arrays, innermost first.
  let closers = '';
  // Last position where the text can be cut and completed, and the closers to add there.
  let safeEnd = 0;
  let safeClosers = '';
  let inString = false;
  let isKey = false;
  let expectKey = false;
  const markSafe = (end: number): void => {
    safeEnd = end;
    safeClosers = inString ? `"${closers}` : closers;
  };
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (inString) {
      if (char === '\\') {
        const length = text[i + 1] === 'u' ? 6 : 2;
        if (i + length > text.length) {
          break;
        }
        i += length - 1;
      } else if (char === '"') {
        inString = false;
        if (!isKey) {
          markSafe(i + 1);
        }
        continue;
      }
      if (!isKey) {
        markSafe(i + 1);
      }
      continue;
    }
    switch (char) {
      case '"':
        inString = true;
        isKey = expectKey;
        expectKey = false;
        if (!isKey) {
          markSafe(i + 1);
        }
        break;
      case '{':
        closers = `}${closers}`;
        expectKey = true;
        markSafe(i + 1);
        break;
      case '[':
        closers = `]${closers}`;
        expectKey = false;
        markSafe(i + 1);
        break;
      case '}':
      case ']':
        closers = closers.slice(1);
        expectKey = false;
        markSafe(i + 1);
        break;
      case ',':
        // A number or literal before the comma is complete.
        markSafe(i);
        expectKey = closers[0] === '}';
        break;
    }
  }
  return safeEnd === 0 ? null : tryParse(text.slice(0, safeEnd) + safeClosers);
}

function tryParse(text: string): Record<string, unknown> | null {
  try {
    const value = JSON.parse(text);
    return value && typeof value === 'object' && !Array.isArray(value)
      ? value
      : null;
  } catch {
    return null;
  }
}
