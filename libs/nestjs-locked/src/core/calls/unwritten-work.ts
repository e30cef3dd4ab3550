import type { Hold } from '../lease/hold.js';

/** On the hold itself: another copy of this package may have handed it out. */
const UNWRITTEN = Symbol.for('nestjs-locked/UnwrittenWork');

type MaybeUnwritten = Hold & { [UNWRITTEN]?: Error };

/**
 * Work under the hold was not written, and the code that does it has not noticed. Its call fails at its end, unless it
 * fails with an error of its own: that one must not be hidden.
 *
 * @returns takes it back: the code has noticed after all
 */
export function noteUnwritten(hold: MaybeUnwritten, error: Error): () => void {
  hold[UNWRITTEN] ??= error;
  return () => {
    if (hold[UNWRITTEN] === error) delete hold[UNWRITTEN];
  };
}

/** The work under these holds has succeeded, as far as its code knows. @throws once what was noted of them */
export function assertWritten(holds: readonly MaybeUnwritten[]): void {
  const errors = holds.map((hold) => {
    const error = hold[UNWRITTEN];
    delete hold[UNWRITTEN];
    return error;
  });
  for (const error of errors) if (error !== undefined) throw error;
}
