/**
 * Candidates for a mention, and their ranking by the typed query.
 */
import { IAttachment } from '../api/attachments';

export type CandidateGroup = 'front' | 'cells' | 'variables' | 'files';

export type CandidateKind =
  'selection' | 'error' | 'cell' | 'variable' | 'file' | 'folder';

export interface ICandidate {
  readonly kind: CandidateKind;
  /** Name in the list. */
  readonly label: string;
  /** Additional text that distinguishes it from other candidates. */
  readonly detail: string;
  /** Text of the mention. That of a folder to descend into ends with a slash. */
  readonly mention: string;
  /** `null` for a folder to descend into. */
  readonly attachment: IAttachment | null;
  /** Names that the query is matched with. */
  readonly words: readonly string[];
  /** Content that the query is matched with as well; a match of a name ranks higher. */
  readonly content?: string;
  /** Candidates of equal score are ranked by weight, the highest first; 0 if absent. */
  readonly weight?: number;
}

export interface ICandidateGroup {
  readonly group: CandidateGroup;
  readonly candidates: readonly ICandidate[];
}

/** Maximum number of candidates per group, for an empty query and otherwise. */
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
 * Return the candidates that match the query, in groups. Groups are sorted by their best candidate;
 * candidates by score and weight, or, for an empty query, in their original order.
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
    // Sorting is stable, so equal candidates keep their order.
    const best = [...scored].sort(
      (one, other) =>
        other.score - one.score ||
        (other.candidate.weight ?? 0) - (one.candidate.weight ?? 0)
    );
    const shown = best.slice(0, limit);
    return {
      group,
      score: shown[0]?.score ?? 0,
      // For an empty query, keep the order of the notebook.
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

/** Normalize case and accents: file names on macOS have decomposed accents. */
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
