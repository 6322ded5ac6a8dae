import { digest } from 'lib0/hash/sha256';

/**
 * SHA-256, in hex, of a source as UTF-8; the same as `source_hash` on the server.
 *
 * Not `crypto.subtle`: it does not exist on plain http, and it is asynchronous, so that the user
 * could type between the comparison and the change.
 */
export function sourceHash(source: string): string {
  const bytes = digest(new TextEncoder().encode(source));
  return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');
}
