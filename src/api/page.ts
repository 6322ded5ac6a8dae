import { UUID } from '@lumino/coreutils';

/** How this page names itself to the server, for it to be known again after a reconnection. */
export const PAGE = UUID.uuid4();
