import { expect, it } from '@jest/globals';
import type { LockWait } from '../../libs/nestjs-locked/src/core/lock-info.js';
import { waitGraph } from '../../libs/nestjs-locked/src/dashboard/wait-graph.js';

const wait = (label: string, holds: string[], key: string, waitedMs = 1_000): LockWait => {
  const since = new Date(Date.now() - waitedMs);
  return { processId: 'p', host: 'app-1', pid: 1, id: label, label, key, since, holds };
};

/** The labels of the calls, those in a ring with a star, each with the labels of those that hold what it wants. */
const shown = (waits: LockWait[]) => {
  const graph = waitGraph(waits);
  return graph.map(({ call, heldBy, isInRing }) =>
    [`${call.label}${isInRing ? '*' : ''}`, ...heldBy.map((i) => graph[i]?.call.label)].join(' '),
  );
};

it('knows a ring from calls that only wait for it', () => {
  expect(
    shown([
      wait('A', ['1'], '2', 4_000),
      wait('B', ['2'], '3', 3_000),
      wait('C', ['3'], '1', 2_000),
      wait('D', ['4'], '1', 1_000),
      wait('E', ['5'], '4', 900),
    ]),
  ).toEqual(['A* B', 'B* C', 'C* A', 'D A', 'E D']);
});

it('has no ring where somebody outside holds the key', () => {
  expect(shown([wait('A', ['1'], '2'), wait('B', ['3'], '2')])).toEqual(['A', 'B']);
});

it('shows a call that waits for what it holds itself', () => {
  expect(shown([wait('A', ['1'], '1')])).toEqual(['A* A']);
});

it('shows each reader of a key that waits itself, and a ring through one of them', () => {
  expect(
    shown([
      wait('Writer', ['1'], '2', 4_000),
      wait('Reader', ['2'], '3', 3_000),
      wait('Other', ['2'], '1', 2_000),
    ]),
  ).toEqual(['Writer* Reader Other', 'Reader', 'Other* Writer']);
});

it('leaves out short waits, and all but the longest hundred', () => {
  expect(shown([wait('A', ['1'], '2', 400)])).toEqual([]);
  const many = Array.from({ length: 200 }, (_, i) => wait(`${i}`, ['1'], '2', 1_000 + i));
  expect(shown(many)).toHaveLength(100);
  expect(shown(many)[0]).toBe('199');
});
