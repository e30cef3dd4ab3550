/** Replacements in one text. They must not overlap. */
export class Edits {
  readonly #edits: { readonly start: number; readonly end: number; readonly text: string }[] = [];

  get isEmpty(): boolean {
    return this.#edits.length === 0;
  }

  replace(start: number, end: number, text: string): void {
    this.#edits.push({ start, end, text });
  }

  /** Whether a replacement removes what is at this position. */
  covers(position: number): boolean {
    return this.#edits.some(({ start, end }) => start <= position && position < end);
  }

  applyTo(text: string): string {
    let result = text;
    // Those at the same position are applied in the order in which they were made.
    const fromTheEnd = this.#edits
      .map((edit, order) => ({ ...edit, order }))
      .sort((a, b) => b.start - a.start || b.end - a.end || b.order - a.order);
    for (const edit of fromTheEnd) {
      result = result.slice(0, edit.start) + edit.text + result.slice(edit.end);
    }
    return result;
  }
}
