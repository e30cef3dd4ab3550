import { expect, it } from '@jest/globals';
import type { HeldHere } from '../../libs/nestjs-locked/src/core/calls/held-here.js';
import {
  innermostLevel,
  type Level,
  levelsInside,
  withoutReleased,
} from '../../libs/nestjs-locked/src/core/calls/levels.js';

/** From the outside in. */
function levels(...held: object[]): Level {
  let around: Level | undefined;
  for (const here of held) around = { here: here as HeldHere, around };
  return around as Level;
}

const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((lock) => ({ lock }));
const released = { lock: undefined };

it('are shared as they are if none is released', () => {
  const all = levels(a!, b!, c!);
  expect(withoutReleased(all)).toBe(all);
});

it('keep their order without the released ones, and share what is around those', () => {
  const outer = levels(a!, b!);
  const all = [released, c!, released, d!].reduce<Level>(
    (around, here) => ({ here: here as HeldHere, around }),
    outer,
  );
  const held = withoutReleased(all);
  expect(levelsInside(held)).toEqual([a, b, c, d]);
  expect(held?.around?.around).toBe(outer);
  expect(withoutReleased(levels(released, released))).toBeUndefined();
});

it('are found from the inside, and counted up to an end', () => {
  const all = levels(a!, b!, c!);
  expect(innermostLevel(all, (here) => here !== (c as unknown))).toBe(b);
  expect(levelsInside(all, (here) => here === (a as unknown))).toEqual([b, c]);
  expect(levelsInside(undefined)).toEqual([]);
});
