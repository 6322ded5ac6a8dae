/**
 * Mentions in the text of a message: detecting one that is being typed, inserting and removing
 * mentions, and matching them with attachments.
 */
import { IAttachment } from '../api/attachments';

/** A mention that is being typed. */
export interface ITrigger {
  /** Offset of the `@`. */
  readonly start: number;
  /** Text after the `@`, and after an opening quote, up to the cursor. */
  readonly query: string;
  /** Offset of the cursor. */
  readonly end: number;
}

/** A path with spaces is quoted with the first of these that it does not contain. */
const QUOTES = ['"', "'", '`'];

/**
 * Return the mention that is being typed at the cursor, or `null`. An `@` inside a word does not
 * start a mention, and a closing quote ends it.
 */
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
 * Return the mention of a path.
 *
 * @param goesOn - Whether the path is a folder to descend into, so that a quote stays open.
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
 * Replace the mention that is being typed.
 *
 * @returns The new text, and the new offset of the cursor.
 */
export function insertMention(
  text: string,
  trigger: ITrigger,
  mention: string
): { text: string; cursor: number } {
  const before = text.slice(0, trigger.start);
  const after = text.slice(trigger.end);
  // No space after a folder, since the user goes on to its content.
  const space = mention.endsWith('/') || /^\s/.test(after) ? '' : ' ';
  const cursor = before.length + mention.length + (space || after ? 1 : 0);
  return {
    text: `${before}${mention}${space}${after}`,
    cursor: mention.endsWith('/') ? before.length + mention.length : cursor
  };
}

/** Whether the text contains the mention as a separate word. */
export function hasMention(text: string, mention: string): boolean {
  return placesOf(text, mention).length > 0;
}

/** Remove a mention from the text. */
export function withoutMention(text: string, mention: string): string {
  return placesOf(text, mention).reduceRight((left, place) => {
    const before = left.slice(0, place);
    const after = left.slice(place + mention.length);
    return before === '' || /\s$/.test(before)
      ? before + after.replace(/^ /, '')
      : before + after;
  }, text);
}

/** Return `mention`, with a number appended if another attachment has it already. */
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

/** Return the attachments to send: those without a mention, or whose mention is in the text. */
export function attachedTo(
  text: string,
  attachments: readonly IAttachment[]
): readonly IAttachment[] {
  return attachments.filter(
    ({ mention }) => mention === undefined || hasMention(text, mention)
  );
}

/** Whether there is something to send: text, or attachments alone, such as an image. */
export function isSendable(
  text: string,
  attachments: readonly IAttachment[]
): boolean {
  return text.trim() !== '' || attachedTo(text, attachments).length > 0;
}

/**
 * Return the mentioned attachments of an earlier message that can be sent again. Selections cannot,
 * since records do not keep the selected text.
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

/** Whether two attachments refer to the same object. */
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
    // A period may end the sentence, unless the name continues after it.
    if (
      !/[\p{L}\p{N}_]/u.test(before) &&
      !/^\.?[\p{L}\p{N}_]|^[\p{M}/-]/u.test(after)
    ) {
      places.push(place);
    }
  }
  return places;
}
