import { expect, it } from '@jest/globals';
import type { HeldHere } from '../../libs/nestjs-locked/src/core/calls/held-here.js';
import {
  callsInside,
  innermostCall,
  type NestedCall,
  withoutReleased,
} from '../../libs/nestjs-locked/src/core/calls/nested-calls.js';

/** From the outside in. */
function nested(...held: object[]): NestedCall {
  let around: NestedCall | undefined;
  for (const here of held) around = { here: here as HeldHere, around };
  return around as NestedCall;
}

const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((lock) => ({ lock }));
const released = { lock: undefined };

it('nested calls are shared unchanged if none is released', () => {
  const all = nested(a!, b!, c!);
  expect(withoutReleased(all)).toBe(all);
});

it('nested calls keep their order without the released ones, and share the calls around those', () => {
  const outer = nested(a!, b!);
  const all = [released, c!, released, d!].reduce<NestedCall>(
    (around, here) => ({ here: here as HeldHere, around }),
    outer,
  );
  const held = withoutReleased(all);
  expect(callsInside(held)).toEqual([a, b, c, d]);
  expect(held?.around?.around).toBe(outer);
  expect(withoutReleased(nested(released, released))).toBeUndefined();
});

it('nested calls are found from the inside out, and counted up to an end', () => {
  const all = nested(a!, b!, c!);
  expect(innermostCall(all, (here) => here !== (c as unknown))).toBe(b);
  expect(callsInside(all, (here) => here === (a as unknown))).toEqual([b, c]);
  expect(callsInside(undefined)).toEqual([]);
});
