import { InputDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';

import { ISessionSummary } from '../api/rest';

/**
 * Let the user choose a session whose notebook no longer exists.
 *
 * @param lost - The sessions to choose from; must not be empty.
 * @param name - File name of the notebook to attach the session to.
 * @returns `null` if the user cancelled.
 */
export async function chooseSession(
  lost: readonly ISessionSummary[],
  name: string,
  trans: TranslationBundle
): Promise<ISessionSummary | null> {
  const ordered = likelyFirst(lost, name);
  const labels = ordered.map(({ title, created, notebook }) =>
    trans.__(
      '%1, of %2',
      title || trans.__('Session of %1', new Date(created).toLocaleString()),
      notebook
    )
  );
  const result = await InputDialog.getItem({
    title: trans.__('Attach a session to “%1”', name),
    label: trans.__(
      'The notebook of these sessions was moved or renamed outside of Jupyter, or deleted. The conversation continues in this notebook and its kernel; other sessions of the same notebook are attached as well.'
    ),
    // Number equal labels, so that each session can be chosen.
    items: labels.map((label, index) =>
      labels.indexOf(label) === index ? label : `${label} (${index + 1})`
    ),
    okLabel: trans.__('Attach')
  });
  const chosen = result.button.accept ? result.value : null;
  const index = labels.findIndex(
    (label, i) => chosen === label || chosen === `${label} (${i + 1})`
  );
  return ordered[index] ?? null;
}

/** Sort sessions of a notebook with this file name first, since most moves keep the name. */
export function likelyFirst(
  lost: readonly ISessionSummary[],
  name: string
): ISessionSummary[] {
  const same = ({ notebook }: ISessionSummary): boolean =>
    notebook.split('/').pop() === name;
  return [...lost.filter(same), ...lost.filter(one => !same(one))];
}
