import type { Hold } from '../queue/hold.js';

/** On the hold itself: another copy of this package may have handed it out. */
const UNWRITTEN = Symbol.for('nestjs-locked/UnwrittenWork');

/** All holds under which the work was done share it. */
interface Unwritten {
  readonly error: Error;
  isKnown: boolean;
}

type MaybeUnwritten = Hold & { [UNWRITTEN]?: Unwritten[] };

/**
 * Work under these holds was not written, and the code that does it has not noticed. Its call fails at its end, unless
 * it fails with an error of its own: that one must not be hidden.
 */
export function noteUnwritten(holds: Iterable<MaybeUnwritten>, error: Error): void {
  const note: Unwritten = { error, isKnown: false };
  for (const hold of holds) (hold[UNWRITTEN] ??= []).push(note);
}

/** A call under these holds has failed, or has tried once more and has succeeded: nobody needs to be told any more. */
export function unwrittenIsKnown(holds: Iterable<MaybeUnwritten>): void {
  for (const hold of holds) {
    for (const note of hold[UNWRITTEN] ?? []) note.isKnown = true;
    delete hold[UNWRITTEN];
  }
}

/** The work under these holds has succeeded, as far as its code knows. @throws once what was noted of them */
export function assertWritten(holds: readonly MaybeUnwritten[]): void {
  const news = holds.flatMap((hold) => hold[UNWRITTEN] ?? []).find(({ isKnown }) => !isKnown);
  unwrittenIsKnown(holds);
  if (news !== undefined) throw news.error;
}
