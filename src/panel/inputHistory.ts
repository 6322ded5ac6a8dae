/** Navigation through the sent messages, and back to the unsent draft. */
export class InputHistory {
  /**
   * @param sent - Messages sent so far, oldest first.
   * @param draft - Text in the composer.
   * @returns the text to show, or `null` if there is nothing further in that direction.
   */
  move(
    direction: 'older' | 'newer',
    sent: readonly string[],
    draft: string
  ): string | null {
    if (this._back === 0) {
      this._unsent = draft;
    }
    const back = this._back + (direction === 'older' ? 1 : -1);
    if (back < 0 || back > sent.length) {
      return null;
    }
    this._back = back;
    return back === 0 ? this._unsent : sent[sent.length - back];
  }

  /** Leave the history, after the user has edited or sent the text. */
  reset(): void {
    this._back = 0;
    this._unsent = '';
  }

  private _back = 0;
  private _unsent = '';
}
