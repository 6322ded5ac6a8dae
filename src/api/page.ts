import { UUID } from '@lumino/coreutils';

/** Id of this page, by which the server recognizes it after a reconnection. */
export const PAGE = UUID.uuid4();
