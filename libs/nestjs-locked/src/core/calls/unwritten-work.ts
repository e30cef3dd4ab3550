import type { Hold } from '../queue/hold.js';

/** Stored on the hold itself, because another copy of this package may have handed it out. */
const UNWRITTEN = Symbol.for('nestjs-locked/UnwrittenWork');

/** Shared by all holds under which the work was done. */
interface Unwritten {
  readonly error: Error;
  isKnown: boolean;
}

type MaybeUnwritten = Hold & { [UNWRITTEN]?: Unwritten[] };

/**
 * Notes that work under these holds was not written to the database, unnoticed by its code. The call fails at its end
 * with this error, unless it fails with its own, which must not be hidden.
 */
export function noteUnwritten(holds: Iterable<MaybeUnwritten>, error: Error): void {
  const note: Unwritten = { error, isKnown: false };
  for (const hold of holds) (hold[UNWRITTEN] ??= []).push(note);
}

/** Withdraws the note, because a call under these holds has failed, or has succeeded on another try. */
export function unwrittenIsKnown(holds: Iterable<MaybeUnwritten>): void {
  for (const hold of holds) {
    for (const note of hold[UNWRITTEN] ?? []) note.isKnown = true;
    delete hold[UNWRITTEN];
  }
}

/** Called when the work under these holds has succeeded as far as its code knows. @throws a noted error, once */
export function assertWritten(holds: readonly MaybeUnwritten[]): void {
  const news = holds.flatMap((hold) => hold[UNWRITTEN] ?? []).find(({ isKnown }) => !isKnown);
  unwrittenIsKnown(holds);
  if (news !== undefined) throw news.error;
}
