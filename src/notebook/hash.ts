import { digest } from 'lib0/hash/sha256';

/**
 * Return the SHA-256 of a source in UTF-8 as hex; the same as `source_hash` on the server.
 *
 * `crypto.subtle` does not exist over plain HTTP, and it is asynchronous, so that the user could
 * type between the comparison and the change.
 */
export function sourceHash(source: string): string {
  const bytes = digest(new TextEncoder().encode(source));
  return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');
}
