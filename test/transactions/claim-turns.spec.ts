import { expect, it } from '@jest/globals';
import {
  areKept,
  inTurns,
  leaveTurns,
  takeAgain,
  takeTurns,
} from '../../libs/nestjs-locked/src/transactions/scope/claim-turns.js';
import type { GuardingHold } from '../../libs/nestjs-locked/src/transactions/scope/guarding-hold.js';

/** Longer than a test may take. */
const LEASE_MS = 300_000;

const holdOf = (key: string): GuardingHold =>
  ({
    hold: { key, callWaitMs: 0, options: { leaseMs: LEASE_MS } },
    locks: { orderedBy: '' },
  }) as unknown as GuardingHold;

const CONNECTED = { isConnected: true };

/** Whether it is settled before anything else happens. */
async function isSettled(work: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const note = (): void => void (settled = true);
  work.then(note, note);
  await new Promise(setImmediate);
  return settled;
}

it('one that has lost one of its turns gives the others up before it waits', async () => {
  const [a, b] = [holdOf('a'), holdOf('b')];
  const first = await takeTurns([a, b], {});
  const second = await takeTurns([a], CONNECTED);
  expect(areKept(first)).toBe(false);
  const again = takeAgain(first);

  const ofSecond = inTurns(second, () => takeTurns([a, b], CONNECTED));
  expect(await isSettled(ofSecond)).toBe(true);
  leaveTurns([...second, ...(await ofSecond)]);
  await again;
  expect(areKept(first)).toBe(true);
  leaveTurns(first);
});

it('one that has lost its turns waits behind another one that waits for them', async () => {
  const [a, b] = [holdOf('a'), holdOf('b')];
  const first = await takeTurns([a, b], {});
  const third = await takeTurns([b], CONNECTED);
  const second = await takeTurns([a], CONNECTED);
  const ofSecond = inTurns(second, () => takeTurns([b], CONNECTED));
  expect(areKept(first)).toBe(false);
  const again = inTurns(first, () => takeAgain(first));
  expect(await isSettled(again)).toBe(false);

  leaveTurns(third);
  leaveTurns([...second, ...(await ofSecond)]);
  await again;
  expect(areKept(first)).toBe(true);
  leaveTurns(first);
});
