import type { HeldHere } from './held-here.js';

/** A call with its outer calls, which nested calls share. */
export interface NestedCall {
  readonly here: HeldHere;
  readonly around: NestedCall | undefined;
}

/** The innermost call that satisfies the condition. */
export function innermostCall(
  call: NestedCall | undefined,
  isWanted: (here: HeldHere) => boolean,
): HeldHere | undefined {
  for (let at = call; at !== undefined; at = at.around) if (isWanted(at.here)) return at.here;
  return undefined;
}

/** The calls from the outside in: all, or those inside the innermost one that satisfies `isEnd`. */
export function callsInside(
  call: NestedCall | undefined,
  isEnd: (here: HeldHere) => boolean = () => false,
): HeldHere[] {
  const inside: HeldHere[] = [];
  for (let at = call; at !== undefined && !isEnd(at.here); at = at.around) inside.push(at.here);
  return inside.reverse();
}

/**
 * Removes released calls, because calls may start one another endlessly. The calls around the last released one are
 * shared.
 */
export function withoutReleased(call: NestedCall | undefined): NestedCall | undefined {
  const held: HeldHere[] = [];
  let [shared, toCopy] = [call, 0];
  for (let at = call; at !== undefined; at = at.around) {
    if (at.here.lock !== undefined) held.push(at.here);
    else [shared, toCopy] = [at.around, held.length];
  }
  for (const here of held.slice(0, toCopy).reverse()) shared = { here, around: shared };
  return shared;
}
