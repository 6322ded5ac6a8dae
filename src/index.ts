/**
 * The plugins of this extension. Each can be disabled separately.
 */
import { activeSessions, sessions, streams } from './api/plugins';
import { notebookWriter } from './notebook';
import { cellCommands } from './panel/cellCommands';
import { commands } from './panel/commands';
import { introduction } from './panel/introduction';
import { notifications } from './panel/notifications';
import { panel } from './panel/plugin';
import { status } from './status/plugin';

export * from './tokens';
// Types that the interfaces of the tokens refer to.
export type * from './api/attachments';
export type * from './api/frames';
export type * from './api/rest';
export type * from './model/items';

export default [
  sessions,
  streams,
  activeSessions,
  panel,
  commands,
  cellCommands,
  introduction,
  notifications,
  status,
  notebookWriter
];
