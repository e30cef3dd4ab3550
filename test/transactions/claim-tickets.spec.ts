import { expect, it } from '@jest/globals';
import {
  areFirst,
  drawAgain,
  drawTickets,
  inContextOf,
  returnTickets,
} from '../../libs/nestjs-locked/src/transactions/scope/claim-tickets.js';
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

it('one that was overtaken in one queue gives up the others before it waits', async () => {
  const [a, b] = [holdOf('a'), holdOf('b')];
  const first = await drawTickets([a, b], {});
  const second = await drawTickets([a], CONNECTED);
  expect(areFirst(first)).toBe(false);
  const again = drawAgain(first);

  const ofSecond = inContextOf(second, () => drawTickets([a, b], CONNECTED));
  expect(await isSettled(ofSecond)).toBe(true);
  returnTickets([...second, ...(await ofSecond)]);
  await again;
  expect(areFirst(first)).toBe(true);
  returnTickets(first);
});

it('one that was overtaken waits behind another one that waits', async () => {
  const [a, b] = [holdOf('a'), holdOf('b')];
  const first = await drawTickets([a, b], {});
  const third = await drawTickets([b], CONNECTED);
  const second = await drawTickets([a], CONNECTED);
  const ofSecond = inContextOf(second, () => drawTickets([b], CONNECTED));
  expect(areFirst(first)).toBe(false);
  const again = inContextOf(first, () => drawAgain(first));
  expect(await isSettled(again)).toBe(false);

  returnTickets(third);
  returnTickets([...second, ...(await ofSecond)]);
  await again;
  expect(areFirst(first)).toBe(true);
  returnTickets(first);
});
