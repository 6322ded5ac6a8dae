/**
 * What can be mentioned, and which of it fits what is typed.
 */
import { IAttachment } from '../api/attachments';

export type CandidateGroup = 'front' | 'cells' | 'variables' | 'files';

export type CandidateKind =
  'selection' | 'error' | 'cell' | 'variable' | 'file' | 'folder';

export interface ICandidate {
  readonly kind: CandidateKind;
  /** What it is called in the list. */
  readonly label: string;
  /** What else tells it from others. */
  readonly detail: string;
  /** What stands for it in the text; a folder's ends with a slash and is gone on from. */
  readonly mention: string;
  /** `null` for a folder that is gone on from. */
  readonly attachment: IAttachment | null;
  /** Names that one may type to find it. */
  readonly words: readonly string[];
  /** What it holds, to find it by as well; a name counts for more. */
  readonly content?: string;
  /** The one that matters more goes first where nothing is typed. */
  readonly weight?: number;
}

export interface ICandidateGroup {
  readonly group: CandidateGroup;
  readonly candidates: readonly ICandidate[];
}

/** Of one group, where nothing is typed and where something is. */
const SHOWN_UNASKED = 5;
const SHOWN = 8;

const GROUPS: Record<CandidateKind, CandidateGroup> = {
  selection: 'front',
  error: 'front',
  cell: 'cells',
  variable: 'variables',
  file: 'files',
  folder: 'files'
};

const ORDER: readonly CandidateGroup[] = [
  'front',
  'cells',
  'variables',
  'files'
];

/**
 * What fits the query, by groups. The best one comes first: its group goes before the others, and
 * within its group it goes before the others.
 */
export function rank(
  candidates: readonly ICandidate[],
  query: string
): ICandidateGroup[] {
  const sought = plain(query);
  const limit = sought === '' ? SHOWN_UNASKED : SHOWN;
  const groups = ORDER.map(group => {
    const scored = candidates
      .filter(({ kind }) => GROUPS[kind] === group)
      .map(candidate => ({ candidate, score: scoreOf(candidate, sought) }))
      .filter(({ score }) => score > 0);
    // Both sorts are stable: what was near stays near.
    const best = [...scored].sort(
      (one, other) =>
        other.score - one.score ||
        (other.candidate.weight ?? 0) - (one.candidate.weight ?? 0)
    );
    const shown = best.slice(0, limit);
    return {
      group,
      score: shown[0]?.score ?? 0,
      // Unasked, the order is that of the notebook.
      candidates: (sought === ''
        ? scored.filter(entry => shown.includes(entry))
        : shown
      ).map(({ candidate }) => candidate)
    };
  });
  return groups
    .filter(({ score }) => score > 0)
    .sort((one, other) => other.score - one.score)
    .map(({ group, candidates }) => ({ group, candidates }));
}

/** Case and the way that accents are written do not matter: macOS writes them apart. */
function plain(text: string): string {
  return text.normalize().toLowerCase();
}

function scoreOf(candidate: ICandidate, sought: string): number {
  const content =
    candidate.content && plain(candidate.content).includes(sought) ? 1 : 0;
  return Math.max(
    content,
    ...candidate.words.map(word => scoreOfWord(plain(word), sought))
  );
}

function scoreOfWord(word: string, sought: string): number {
  if (sought === '') {
    return 1;
  }
  if (word === sought) {
    return 5;
  }
  const place = word.indexOf(sought);
  if (place < 0) {
    return 0;
  }
  return place === 0 ? 4 : /[a-z0-9]/.test(word[place - 1]) ? 2 : 3;
}
