import { TranslationBundle } from '@jupyterlab/translation';

import { IBehindState, IMissingName, IRestoreItem } from '../model/items';

/** Return the line about the outcome of a restore and its trigger. */
export function restoreLine(
  item: IRestoreItem,
  trans: TranslationBundle
): string {
  if (item.asked.length > 0) {
    return askedLine(item, trans);
  }
  const line = outcomeLine(item, trans);
  return item.behind === null ? line : `${line} ${behind(item.behind, trans)}`;
}

/** Return why a variable is missing or a placeholder; may be empty. */
export function missingReason(
  { leftOut, reason }: IMissingName,
  trans: TranslationBundle
): string {
  switch (leftOut) {
    case 'hung':
      return trans.__(
        'left out, because reading it back after it was saved took too long'
      );
    case 'ended':
      return trans.__(
        'left out, because it ended the process that read it back after it was saved'
      );
    case 'slow':
      return trans.__('given up, because loading it took too long');
    case 'interrupted':
      return trans.__('loading it was stopped');
    default:
      return reason;
  }
}

/** Return the line about a restore of individual names. */
function askedLine(item: IRestoreItem, trans: TranslationBundle): string {
  const names = item.asked.join(', ');
  if (item.restored === item.asked.length) {
    return trans.__('Loaded: %1.', names);
  }
  if (item.missing.length > 0) {
    return item.missing.every(entry => entry.placeholder)
      ? trans.__('Loaded, but not as it was: %1.', names)
      : trans.__('Could not be loaded: %1.', names);
  }
  return trans.__('Left as it is in the kernel now: %1.', names);
}

function outcomeLine(item: IRestoreItem, trans: TranslationBundle): string {
  const why =
    {
      crash: trans.__('The kernel died and was started again'),
      restart: trans.__('The kernel was restarted'),
      shutdown: trans.__('The kernel was shut down'),
      resume: trans.__('The earlier kernel is gone')
    }[item.trigger] ?? trans.__('Kernel state');
  switch (item.outcome) {
    case 'failed':
      return trans.__('%1; its variables could not be restored.', why);
    case 'skipped':
      return trans.__('%1; its variables were not restored.', why);
    case 'offered':
      return item.saved === null
        ? trans.__('%1; its variables were saved.', why)
        : trans.__(
            '%1; it had no variables. Earlier ones, as of %2, can be restored.',
            why,
            new Date(item.saved).toLocaleString()
          );
    case 'unchanged':
      return item.empty
        ? trans.__(
            '%1: the snapshot has no variables, so there was nothing to restore.',
            why
          )
        : trans.__('%1: every variable is as it was saved.', why);
    default: {
      const count = trans._n(
        '%1 variable restored',
        '%1 variables restored',
        item.restored
      );
      const lost = item.missing.length;
      return lost === 0
        ? `${why}: ${count}.`
        : `${why}: ${count}, ${trans._n('%1 is not as it was', '%1 are not as they were', lost)}.`;
    }
  }
}

/** Return the sentence that the snapshot lacks the effects of later runs. */
function behind(
  { asOf, runs }: IBehindState,
  trans: TranslationBundle
): string {
  return trans._n(
    'They are as of %2; what %1 later run did is not in them.',
    'They are as of %2; what %1 later runs did is not in them.',
    runs,
    new Date(asOf).toLocaleString()
  );
}
