/** Walks through what was sent before, and back to what was being written. */
export class InputHistory {
  /**
   * @param sent - Messages sent so far, oldest first.
   * @param draft - What is in the composer.
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

  /** The person wrote something of their own. */
  reset(): void {
    this._back = 0;
    this._unsent = '';
  }

  private _back = 0;
  private _unsent = '';
}
