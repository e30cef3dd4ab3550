/** What a single node of a quorum does, and what its answers count for. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { RedisServer } from 'dev-servers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { Party } from '../support/contract-party.js';
import { eventually } from '../support/eventually.js';
import { lockOf, openQuorumStore, tokenOfOther, useQuorum } from '../support/own-quorum.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 60_000;
const TEN_MINUTES = 600_000;

describe('a node of a quorum', () => {
  let own: Awaited<ReturnType<typeof openQuorumStore>>;
  afterAll(() => own.store.close());
  const quorum = useQuorum();
  const { holders } = quorum;

  beforeAll(async () => {
    own = await openQuorumStore(quorum.urls, { leaseMs: LEASE_MS });
  });

  it('counts no vote of a server that has taken its place, until that must know all locks [G52]', async () => {
    const other = await RedisServer.start();
    afterTest(() => other.stop());
    const rejoinAfterMs = 2_000;
    await sleep(rejoinAfterMs + 1_500); // all of them are old enough, as a replica is that takes over
    const proxy = await TcpProxy.start(quorum.servers[2]?.port ?? 0);
    const urls = [...quorum.urls.slice(0, 2), proxy.url];
    const mine = await openQuorumStore(urls, { leaseMs: rejoinAfterMs, rejoinAfterMs });
    afterTest(() => mine.store.close());
    const key = uniqueKey();
    await quorum.admins[0]?.set(lockOf(key), tokenOfOther(), 'PX', LEASE_MS);
    const me = new Party(mine, key);
    const single = () => me.ask(me.token(), { nowait: true });
    await eventually(async () => {
      const first = await single(); // the third node may still be connecting
      expect(first.kind).toBe('granted');
      await me.leave((first as { token: string }).token);
    });

    proxy.leadTo(other.port);
    proxy.cut();
    const from = performance.now();
    expect((await single()).kind).not.toBe('granted');
    await eventually(async () => expect((await single()).kind).toBe('granted'), 10_000);
    expect(performance.now() - from).toBeGreaterThan(rejoinAfterMs);
  });

  it('that is young takes no vote back: it may have given it to another one [G52]', async () => {
    const rejoinAfterMs = 3_600_000;
    const young = await openQuorumStore(quorum.urls, { leaseMs: LEASE_MS, rejoinAfterMs });
    afterTest(() => young.store.close());
    const key = uniqueKey();
    const me = new Party(young, key);
    const token = me.token();
    for (const n of [0, 1]) await quorum.admins[n]?.set(lockOf(key), token, 'PX', LEASE_MS);
    expect((await me.renew(token, 5, LEASE_MS)).kind).toBe('renewed');
    await sleep(200);
    expect(await holders(key)).toEqual([token, token, null]);
  });

  it('takes the clock of a process for advice: nobody is in line since long ago, or since later [G54]', async () => {
    const key = uniqueKey();
    const other = tokenOfOther();
    for (const admin of quorum.admins) await admin.set(lockOf(key), other, 'PX', LEASE_MS);
    const me = new Party(own, key);
    const [early, late] = [me.token(), me.token()];
    await me.ask(early, { position: 1 });
    await me.ask(late, { position: (Date.now() + TEN_MINUTES) * 1_000 });
    for (const admin of quorum.admins) {
      const since = async (token: string): Promise<number> =>
        Number(await admin.zscore(`${lockOf(key)}:queue`, token)) / 1_000;
      expect(await since(early)).toBeGreaterThan(Date.now() - TEN_MINUTES - 10_000);
      expect(await since(late)).toBeLessThanOrEqual(Date.now());
    }
    await me.leave(early);
    await me.leave(late);
  });

  it('whose turn comes for somebody who has gone is told so at once [G54]', async () => {
    const key = uniqueKey();
    const gone = `${own.store.processId}:${Date.now()}000`;
    for (const admin of quorum.admins) await admin.set(lockOf(key), `turn:${gone}`, 'PX', LEASE_MS);
    await quorum.admins[0]?.publish(`lock:inbox:${own.store.processId}`, `h ${gone} 0 ${key}`);
    await eventually(async () => expect(await holders(key)).toEqual([null, null, null]));
  });

  it('keeps no numbers for keys that were taken in vain, because another one was not free [G55]', async () => {
    const keys = [uniqueKey('a'), uniqueKey('b')] as const;
    const other = tokenOfOther();
    for (const admin of quorum.admins) await admin.set(lockOf(keys[1]), other, 'PX', LEASE_MS);
    const me = new Party(own, keys[0]);
    expect((await me.askTogether(keys)).map(({ kind }) => kind)).toEqual(['busy', 'busy']);
    await eventually(async () => expect(await holders(keys[0])).toEqual([null, null, null]));
    for (const admin of quorum.admins) {
      const [last] = ((await admin.get(`${lockOf(keys[0])}:fence`)) ?? '0').split(' ');
      expect(Number(last)).toBeLessThanOrEqual(Date.now() * 1_000);
    }
  });
});
