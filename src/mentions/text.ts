/**
 * Mentions in the text of a message: where one is being typed, and which are still there.
 */
import { IAttachment } from '../api/attachments';

/** A mention that is being typed. */
export interface ITrigger {
  /** Where its `@` stands. */
  readonly start: number;
  /** What follows the `@` and a quote that opens behind it, up to the cursor. */
  readonly query: string;
  /** Where the cursor is. */
  readonly end: number;
}

/** A mention of a path with spaces stands in the first of these that the path does not have. */
const QUOTES = ['"', "'", '`'];

/** The mention at the cursor; an `@` inside a word is none, nor is one whose quote is closed. */
export function triggerAt(text: string, cursor: number): ITrigger | null {
  const match = text
    .slice(0, cursor)
    .match(
      /(?:^|[\s([{"'`])(@(?:(?<quote>["'`])(?<quoted>(?:(?!\k<quote>).)*)|(?<plain>(?!["'`])[^\s@]*)))$/
    );
  return match
    ? {
        start: cursor - match[1].length,
        query: match.groups!.quoted ?? match.groups!.plain,
        end: cursor
      }
    : null;
}

/**
 * What stands for a path in the text.
 *
 * @param goesOn - It is a folder to go on from: a quote stays open.
 */
export function mentionOf(path: string, goesOn = false): string {
  const end = goesOn ? '/' : '';
  if (!/[\s@]|^["'`]/.test(path)) {
    return `@${path}${end}`;
  }
  const quote = QUOTES.find(mark => !path.includes(mark)) ?? QUOTES[0];
  return `@${quote}${path}${goesOn ? end : quote}`;
}

/**
 * Put a mention where it was being typed.
 *
 * @returns The text, and where the cursor belongs.
 */
export function insertMention(
  text: string,
  trigger: ITrigger,
  mention: string
): { text: string; cursor: number } {
  const before = text.slice(0, trigger.start);
  const after = text.slice(trigger.end);
  // A folder goes on: what is in it comes next.
  const space = mention.endsWith('/') || /^\s/.test(after) ? '' : ' ';
  const cursor = before.length + mention.length + (space || after ? 1 : 0);
  return {
    text: `${before}${mention}${space}${after}`,
    cursor: mention.endsWith('/') ? before.length + mention.length : cursor
  };
}

/** Whether the text has the mention, as a word of its own. */
export function hasMention(text: string, mention: string): boolean {
  return placesOf(text, mention).length > 0;
}

/** The text without the mention. */
export function withoutMention(text: string, mention: string): string {
  return placesOf(text, mention).reduceRight((left, place) => {
    const before = left.slice(0, place);
    const after = left.slice(place + mention.length);
    return before === '' || /\s$/.test(before)
      ? before + after.replace(/^ /, '')
      : before + after;
  }, text);
}

/** `mention`, with a number if another attachment goes by it already. */
export function freeMention(
  mention: string,
  attachments: readonly IAttachment[]
): string {
  const taken = new Set(attachments.map(attachment => attachment.mention));
  let free = mention;
  for (let n = 2; taken.has(free); n++) {
    free = `${mention}-${n}`;
  }
  return free;
}

/** What goes with the text: what is mentioned goes as long as its mention is there. */
export function attachedTo(
  text: string,
  attachments: readonly IAttachment[]
): readonly IAttachment[] {
  return attachments.filter(
    ({ mention }) => mention === undefined || hasMention(text, mention)
  );
}

/**
 * What goes along when a message of before is sent again. A selection does not: what was selected
 * is not known any more.
 */
export function mentionedAgain(
  attachments: readonly IAttachment[]
): IAttachment[] {
  return attachments.filter(
    attachment =>
      attachment.mention !== undefined &&
      !('selection' in attachment && attachment.selection) &&
      !(
        'cells' in attachment &&
        attachment.cells?.some(({ selection }) => selection)
      )
  );
}

/** Whether two attachments are of the same thing. */
export function isSame(one: IAttachment, other: IAttachment): boolean {
  return identity(one) === identity(other);
}

function identity(attachment: IAttachment): string {
  const { type, value } = attachment;
  const cells = 'cells' in attachment ? (attachment.cells ?? []) : [];
  return JSON.stringify([
    type,
    value,
    'selection' in attachment ? attachment.selection : null,
    cells.map(({ id, selection }) => [id, selection]),
    attachment.type === 'image' ? attachment.data : null
  ]);
}

function placesOf(text: string, mention: string): number[] {
  const places: number[] = [];
  for (
    let place = text.indexOf(mention);
    place >= 0;
    place = text.indexOf(mention, place + 1)
  ) {
    const before = text[place - 1] ?? ' ';
    const after = text.slice(place + mention.length);
    // A full stop behind it may end the sentence, a name goes on.
    if (
      !/[\p{L}\p{N}_]/u.test(before) &&
      !/^\.?[\p{L}\p{N}_]|^[\p{M}/-]/u.test(after)
    ) {
      places.push(place);
    }
  }
  return places;
}
