/** A node that is silent, of which nobody can say whether the other holder of a key has its vote. */
import { expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockNotAcquiredError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { afterTest } from '../support/after-test.js';
import { Party } from '../support/contract-party.js';
import {
  lockOf,
  openQuorumLocks,
  openQuorumStore,
  tokenOfOther,
  useQuorum,
} from '../support/own-quorum.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 30_000;

const quorum = useQuorum();

/** One node votes for us, one for another holder, and the third may have voted for that one as well. */
async function unsure() {
  const key = uniqueKey();
  await quorum.admins[0]?.set(lockOf(key), tokenOfOther(), 'PX', LEASE_MS);
  const proxy = await TcpProxy.start(quorum.servers[2]?.port ?? 0);
  return { key, proxy, urls: [...quorum.urls.slice(0, 2), proxy.url] };
}

it('lets a single try fail in time, without an error of the store [G50]', async () => {
  const { key, proxy, urls } = await unsure();
  const { engine } = await openQuorumLocks(urls, { leaseMs: LEASE_MS });
  proxy.silenceAll();
  expect(await engine.tryAcquire(key)).toBeNull();
});

it('lets a wait end with the round that is under way, which takes its whole time [G50]', async () => {
  const { key, proxy, urls } = await unsure();
  const own = await openQuorumStore(urls, { leaseMs: LEASE_MS });
  afterTest(() => own.store.close());
  const me = new Party(own, key);
  proxy.silenceAll();
  const { token, position } = await me.queued();
  const newToken = me.token();
  const terms = { key, leaseMs: LEASE_MS };
  const looking = own.store.recheck({ ...terms, token, newToken, position });
  await sleep(50);
  const from = performance.now();
  expect(await own.store.leave({ ...terms, tokens: [token, newToken] })).toEqual({ kind: 'left' });
  expect(performance.now() - from).toBeLessThan(700);
  expect((await looking).kind).toBe('queued');
});

it.each([20, 300, 800])(
  'lets a wait of %i ms end without an error of the store [G50]',
  async (waitMs) => {
    const { key, proxy, urls } = await unsure();
    const { engine } = await openQuorumLocks(urls, { leaseMs: LEASE_MS });
    proxy.silenceAll();
    await expect(engine.acquire(key, { waitMs })).rejects.toThrow(LockNotAcquiredError);
  },
);
