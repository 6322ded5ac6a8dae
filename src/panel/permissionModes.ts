import { TranslationBundle } from '@jupyterlab/translation';

import { PermissionMode } from '../api/rest';

/** All permission modes, in the order in which they are offered. */
export const PERMISSION_MODES: readonly PermissionMode[] = [
  'ask',
  'edit',
  'auto',
  'plan'
];

/** Return the short name of a permission mode. */
export function modeName(mode: string, trans: TranslationBundle): string {
  switch (mode) {
    case 'ask':
      return trans.__('Ask');
    case 'edit':
      return trans.__('Edit');
    case 'auto':
      return trans.__('Auto');
    case 'plan':
      return trans.__('Plan');
    default:
      return mode;
  }
}

/** Describe what a permission mode allows the agent to do. */
export function modeDescription(
  mode: PermissionMode,
  trans: TranslationBundle
): string {
  switch (mode) {
    case 'ask':
      return trans.__(
        'Ask: reads freely, asks before it changes or runs anything'
      );
    case 'edit':
      return trans.__(
        'Edit: changes cells freely, asks before it writes files or runs code'
      );
    case 'auto':
      return trans.__('Auto: changes and runs without asking');
    case 'plan':
      return trans.__('Plan: only reads, changes and runs nothing');
  }
}
