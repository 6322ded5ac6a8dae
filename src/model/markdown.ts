/** Markdown text split into pieces that can be rendered separately; joined they are the text. */
export interface IMarkdownPieces {
  /** Pieces that further text cannot change. */
  readonly finished: readonly string[];
  /** The rest, which further text may change. */
  readonly tail: string;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const LIST_ITEM = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;
const HTML_BLOCK = /^ {0,3}<[a-zA-Z/!?]/;
const DEFINITION = /^ {0,3}\[[^\]]+\]:/m;

/**
 * Splits streamed Markdown at blank lines between blocks, so that a long answer is not rendered
 * again for each delta. Fences, display math, lists and HTML blocks are never split. A text with
 * link definitions is not split at all, since they apply to the whole text.
 */
export class MarkdownSplitter {
  /**
   * @param text - The whole text so far. If it begins with the text of the previous call, only the
   * new part is scanned.
   */
  split(text: string): IMarkdownPieces {
    if (!text.startsWith(this._text)) {
      this._reset();
    }
    this._text = text;
    this._scan();
    if (this._hasDefinition) {
      return { finished: [], tail: text };
    }
    return {
      finished: [...this._finished],
      tail: text.slice(this._pieceStart)
    };
  }

  private _reset(): void {
    this._text = '';
    this._finished = [];
    this._pieceStart = 0;
    this._lineStart = 0;
    this._fence = null;
    this._inMath = false;
    this._afterBlank = false;
    this._whole = 'no';
    this._hasDefinition = false;
  }

  /** Scan the new complete lines. */
  private _scan(): void {
    for (;;) {
      const end = this._text.indexOf('\n', this._lineStart);
      if (end < 0) {
        return;
      }
      this._line(this._text.slice(this._lineStart, end), this._lineStart);
      this._lineStart = end + 1;
    }
  }

  private _line(line: string, start: number): void {
    if (this._fence !== null) {
      const close = line.match(FENCE);
      if (
        close &&
        close[1][0] === this._fence[0] &&
        close[1].length >= this._fence.length &&
        line.trim() === close[1]
      ) {
        this._fence = null;
      }
      return;
    }
    if (this._inMath) {
      this._inMath = !closesMath(line);
      return;
    }
    if (line.trim() === '') {
      this._afterBlank = true;
      return;
    }
    if (this._afterBlank && start > this._pieceStart && !this._belongs(line)) {
      this._finished.push(this._text.slice(this._pieceStart, start));
      this._pieceStart = start;
      this._whole = 'no';
    }
    if (this._text.slice(this._pieceStart, start).trim() === '') {
      this._whole = LIST_ITEM.test(line)
        ? 'list'
        : HTML_BLOCK.test(line)
          ? 'html'
          : 'no';
    }
    this._afterBlank = false;
    if (DEFINITION.test(line)) {
      this._hasDefinition = true;
    }
    const open = line.match(FENCE);
    if (open) {
      this._fence = open[1];
    } else if (opensMath(line)) {
      this._inMath = true;
    }
  }

  /** Whether a line after a blank line still belongs to the current piece. */
  private _belongs(line: string): boolean {
    if (/^(?: {2,}|\t)/.test(line)) {
      return true;
    }
    switch (this._whole) {
      case 'list':
        return LIST_ITEM.test(line);
      case 'html':
        // Markdown inside <details> and the like: only the end of the text surely ends the block.
        return true;
      case 'no':
        return false;
    }
  }

  private _text = '';
  private _finished: string[] = [];
  private _pieceStart = 0;
  private _lineStart = 0;
  private _fence: string | null = null;
  private _inMath = false;
  private _afterBlank = false;
  private _whole: 'no' | 'list' | 'html' = 'no';
  private _hasDefinition = false;
}

function opensMath(line: string): boolean {
  const dollars = line.split('$$').length - 1;
  return (
    dollars % 2 === 1 ||
    (line.includes('\\[') && !line.includes('\\]')) ||
    (line.includes('\\begin{') && !line.includes('\\end{'))
  );
}

function closesMath(line: string): boolean {
  return line.includes('$$') || line.includes('\\]') || line.includes('\\end{');
}
