import type { HeldHere } from './held-here.js';

/** What a call was given, inside of the calls around it. Nested calls share what is around them. */
export interface NestedCall {
  readonly here: HeldHere;
  readonly around: NestedCall | undefined;
}

/** The innermost one that is wanted. */
export function innermostCall(
  call: NestedCall | undefined,
  isWanted: (here: HeldHere) => boolean,
): HeldHere | undefined {
  for (let at = call; at !== undefined; at = at.around) if (isWanted(at.here)) return at.here;
  return undefined;
}

/** From the outside in: all of them, or those inside of the innermost one that is an end. */
export function callsInside(
  call: NestedCall | undefined,
  isEnd: (here: HeldHere) => boolean = () => false,
): HeldHere[] {
  const inside: HeldHere[] = [];
  for (let at = call; at !== undefined && !isEnd(at.here); at = at.around) inside.push(at.here);
  return inside.reverse();
}

/** Without the released ones: a call may begin the next one, without an end. What is around the last one is shared. */
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
