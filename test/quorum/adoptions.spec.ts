/** Adoptions of a lock of which some nodes do not know any more. */
import { expect, it } from '@jest/globals';
import type { Unknown } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { afterTest } from '../support/after-test.js';
import { Party } from '../support/contract-party.js';
import { eventually } from '../support/eventually.js';
import { lockOf, openQuorumStore, tokenOfOther, useQuorum } from '../support/own-quorum.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 60_000;

const quorum = useQuorum();
const { holders } = quorum;

/** A process that reaches the first two nodes by proxies, and a lock that only these nodes have. */
async function heldBy(nodes: readonly number[]) {
  const [first, second, ...others] = quorum.servers;
  const proxies = [
    await TcpProxy.start(first?.port ?? 0),
    await TcpProxy.start(second?.port ?? 0),
  ] as const;
  const urls = [...proxies.map(({ url }) => url), ...others.map(({ url }) => url)];
  const own = await openQuorumStore(urls, { leaseMs: LEASE_MS });
  afterTest(() => own.store.close());
  const key = uniqueKey();
  const token = tokenOfOther();
  for (const n of nodes) await quorum.admins[n]?.set(lockOf(key), token, 'PX', LEASE_MS);
  return { me: new Party(own, key), key, token, proxies };
}

it('says soon which node is away if another one has forgotten the lock [G51]', async () => {
  const { me, key, token, proxies } = await heldBy([0, 2]);
  const [away] = proxies;
  away.silenceAll();
  const from = performance.now();
  const reply = await me.adopt(token, 0);
  expect(performance.now() - from).toBeLessThan(4_000);
  expect(reply).toMatchObject({ kind: 'unknown' });
  expect((reply as Unknown).cause.message).toContain(`${away.url}: no answer within 500 ms`);
  // The others keep it for the next one who tries.
  await eventually(async () => expect((await holders(key))[2]).toBe(token));
});

it('is lost at once if so many nodes have forgotten the lock that nobody can adopt it any more', async () => {
  const { me, key, token, proxies } = await heldBy([2]);
  for (const proxy of proxies) proxy.delayAnswers(50); // the vote of the third comes first
  expect(await me.adopt(token, 0)).toEqual({ kind: 'lost' });
  await eventually(async () => expect((await holders(key))[2]).toBe(token));
});
