import { expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { settled } from '../support/fake-clock.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted } from '../support/scripted-store.js';

/** Everything that is ready to run in this turn of the event loop has run. */
async function microtasks(): Promise<void> {
  for (let i = 0; i < 50; i++) await Promise.resolve();
}

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

it('two leases of one key that become free in the same long turn are both given to a call [R17]', async () => {
  const { engine, store, wanted } = await startScripted({ lingerMs: 1_000 });
  const first = engine.acquire(KEY);
  const ask = await store.next('acquire');
  ask.reply(granted(ask.command.token));
  void (await first).release();
  await settled();

  // From here on, all happens in one turn, which is long.
  const second = engine.acquire(KEY);
  void (await second).release();
  await microtasks();
  block(10);
  const [third, fourth] = [engine.acquire(KEY), engine.acquire(KEY)]; // the lease lingers: its turn is awaited
  await microtasks();
  wanted(ask.command.token);
  store.take('release').reply({ kind: 'released' });
  const askAgain = store.take('acquire');
  askAgain.reply(granted(askAgain.command.token, 500));
  void (await third).release(); // the turn is awaited for the second lease, too

  const next = await Promise.race([fourth, sleep(2_000)]);
  expect(next?.fencingToken).toBe(501);
});
