/** Rounds that are lost or late, and what is left of them on the nodes. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { heldByOne } from '../../libs/nestjs-locked/src/redis/quorum/split-votes.js';
import { Party } from '../support/contract-party.js';
import { eventually } from '../support/eventually.js';
import { lockOf, openQuorumStore, tokenOfOther, useQuorum } from '../support/own-quorum.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 60_000;
const NUMBERS = 1_000_000;
/** After a round in which nobody got enough votes. */
const LONGEST_PAUSE_MS = 48;

describe('a round of votes', () => {
  let own: Awaited<ReturnType<typeof openQuorumStore>>;
  afterAll(() => own.store.close());
  const quorum = useQuorum();
  const { holders } = quorum;

  beforeAll(async () => {
    own = await openQuorumStore(quorum.urls, { leaseMs: LEASE_MS });
  });

  /** The number that each node has stored, and the one below which nothing takes it back. */
  const fences = async (key: string): Promise<[number, number][]> =>
    Promise.all(
      quorum.admins.map(async (admin) => {
        const [last = 0, floor = 0] = ((await admin.get(`${lockOf(key)}:fence`)) ?? '0 0')
          .split(' ')
          .map(Number);
        return [last, floor];
      }),
    );
  const lasts = async (key: string): Promise<number[]> => (await fences(key)).map(([last]) => last);
  /** Another process has the votes of these nodes. */
  const taken = async (key: string, nodes: readonly number[]): Promise<void> => {
    const token = tokenOfOther();
    for (const n of nodes) await quorum.admins[n]?.set(lockOf(key), token, 'PX', LEASE_MS);
  };

  it('that is lost gives back its votes, and the numbers that they have reserved [G55]', async () => {
    const key = uniqueKey();
    await taken(key, [0, 1]);
    const me = new Party(own, key);
    expect((await me.ask(me.token(), { nowait: true, leaseMs: LEASE_MS })).kind).toBe('busy');
    await eventually(async () => expect((await holders(key))[2]).toBeNull());
    expect((await lasts(key))[2]).toBeLessThanOrEqual((Date.now() + 100) * 1_000);
    const waiting = await me.queued();
    await eventually(async () => expect((await holders(key))[2]).toBeNull());
    expect((await lasts(key))[2]).toBeLessThanOrEqual((Date.now() + 100) * 1_000);
    const places = await Promise.all(
      quorum.admins.map((admin) =>
        admin.call('ZRANGE', `${lockOf(key)}:queue`, 0, -1, 'WITHSCORES'),
      ),
    );
    // In pairs, with RESP3.
    expect((places[0] as unknown[]).flat().map(String)).toEqual([
      waiting.token,
      String(waiting.position),
    ]);
    expect(places).toEqual([places[0], places[0], places[0]]); // it stands in line everywhere
    expect((await me.leave(waiting.token)).kind).toBe('left');
    await eventually(async () =>
      expect(await quorum.admins[2]?.exists(`${lockOf(key)}:queue`)).toBe(0),
    );
  });

  it('in which three get a vote each is repeated at once, because nobody has the key [G54]', async () => {
    const key = uniqueKey();
    await taken(key, [0]);
    await taken(key, [1]);
    const me = new Party(own, key);
    const split = await me.queued();
    expect(split.remainingMs).toBeLessThanOrEqual(LONGEST_PAUSE_MS);
    await eventually(async () => expect((await holders(key))[2]).toBeNull());
    const [token] = await holders(key);
    await quorum.admins[1]?.set(lockOf(key), token as string, 'PX', LEASE_MS);
    const behind = await me.queued();
    expect(behind.remainingMs).toBeGreaterThan(LEASE_MS / 2);
    await me.leave(split.token);
    await me.leave(behind.token);
  });

  it.each([
    { noes: ['a', 'a', 'b'], unsure: 2, is: 'maybe' },
    { noes: ['a', 'a', 'a'], unsure: 2, is: 'held' },
    { noes: ['a', 'a', 'b', 'b'], unsure: 0, is: 'split' },
    { noes: ['a', 'b', 'c'], unsure: 1, is: 'split' },
    { noes: [], unsure: 3, is: 'maybe' },
  ])('in which $noes have votes, and $unsure are not known, is $is', ({ noes, unsure, is }) => {
    const no = { kind: 'no', remainingMs: 1, rank: -1, isForeign: false } as const;
    expect(
      heldByOne(
        noes.map((holder) => ({ ...no, holder })),
        unsure,
        3,
      ),
    ).toBe(is);
  });

  it('that is lost takes back votes that come late [G55]', async () => {
    const key = uniqueKey();
    await taken(key, [0, 1]);
    const proxy = await TcpProxy.start(quorum.servers[2]?.port ?? 0);
    const urls = [...quorum.urls.slice(0, 2), proxy.url];
    const late = await openQuorumStore(urls, { leaseMs: LEASE_MS });
    const me = new Party(late, key);
    proxy.delayAnswers(300);
    const from = performance.now();
    expect((await me.ask(me.token(), { nowait: true, leaseMs: LEASE_MS })).kind).toBe('busy');
    expect(performance.now() - from).toBeLessThan(250);
    await eventually(async () => expect((await holders(key))[2]).toContain(late.store.processId));
    await eventually(async () => expect((await holders(key))[2]).toBeNull());
    expect((await lasts(key))[2]).toBeLessThanOrEqual((Date.now() + 100) * 1_000);
    await late.store.close();
  });

  it('that is won keeps votes that come late, and gives all of them back at the end [G49]', async () => {
    const key = uniqueKey();
    const proxy = await TcpProxy.start(quorum.servers[2]?.port ?? 0);
    const urls = [...quorum.urls.slice(0, 2), proxy.url];
    const late = await openQuorumStore(urls, { leaseMs: LEASE_MS });
    const me = new Party(late, key);
    proxy.delayAnswers(1_000);
    const from = performance.now();
    const held = await me.acquired();
    expect(performance.now() - from).toBeLessThan(450); // it does not wait for the end of the round
    await sleep(1_200);
    expect(await holders(key)).toEqual([held.token, held.token, held.token]);
    expect((await me.release(held.token, held.fence)).kind).toBe('released');
    await eventually(async () => expect(await holders(key)).toEqual([null, null, null]));
    expect(new Set(await lasts(key))).toEqual(new Set([held.fence]));
    await late.store.close();
  });

  it('counts no vote of a node that another process has got, and needs more than half [G49]', async () => {
    const key = uniqueKey();
    await taken(key, [1]);
    const me = new Party(own, key);
    expect((await me.acquired(2_000)).kind).toBe('granted');
    const other = uniqueKey();
    await taken(other, [1]);
    await taken(other, [2]);
    const him = new Party(own, other);
    const reply = await him.ask(him.token(), { nowait: true });
    expect(reply.kind).toBe('busy');
  });

  it('stores a number on enough nodes before it is used, however far clocks are apart [G55]', async () => {
    const key = uniqueKey();
    const ahead = (Date.now() + 60_000) * 1_000;
    await quorum.admins[0]?.set(`${lockOf(key)}:fence`, `${ahead} ${ahead}`);
    await taken(key, [2]); // so that the first node is one of two
    const me = new Party(own, key);
    const held = await me.acquired();
    expect(held.fence).toBe(ahead + 1);
    const stored = (await lasts(key)).filter((last) => last >= held.blockEnd);
    expect(stored.length).toBeGreaterThanOrEqual(2);
    expect(held.blockEnd).toBe(held.fence + NUMBERS);
    await me.release(held.token, held.fence);
    await quorum.admins[2]?.del(lockOf(key));
    await taken(key, [0]);
    expect((await me.acquired()).fence).toBeGreaterThan(held.fence);
  });

  it('lets no holder use numbers that fewer than half of the nodes have stored [G55]', async () => {
    const key = uniqueKey();
    const me = new Party(own, key);
    const held = await me.acquired();
    expect((await lasts(key)).filter((last) => last >= held.blockEnd).length).toBeGreaterThan(1);
    const renewed = await me.renew(held.token, held.fence + 500_000);
    const { blockEnd } = renewed as { blockEnd: number };
    expect(blockEnd).toBeGreaterThan(held.blockEnd);
    expect((await lasts(key)).filter((last) => last >= blockEnd).length).toBeGreaterThan(1);
    await me.release(held.token, held.fence + 500_000);
    await eventually(async () =>
      expect(await lasts(key)).toEqual(Array(3).fill(held.fence + 500_000)),
    );
  });

  it('never takes back numbers that others have used, on a node that has lost a vote [G55]', async () => {
    const key = uniqueKey();
    const me = new Party(own, key);
    const held = await me.acquired();
    const higher = held.fence + 50 * NUMBERS;
    await quorum.admins[2]?.del(lockOf(key));
    await quorum.admins[2]?.set(`${lockOf(key)}:fence`, `${higher} ${higher}`);
    expect((await me.renew(held.token, held.fence)).kind).toBe('renewed');
    await eventually(async () => expect((await holders(key))[2]).toBe(held.token));
    expect((await me.release(held.token, held.fence)).kind).toBe('released');
    await eventually(async () => expect((await holders(key))[2]).toBeNull());
    expect((await lasts(key))[2]).toBe(higher);
  });

  it('takes back the numbers of a request that has ended unseen, or the next ones would run ahead of the clock [G55]', async () => {
    const key = uniqueKey();
    const me = new Party(own, key);
    const held = await me.acquired();
    await me.release(held.token, held.fence);
    for (let n = 0; n < 3; n++) {
      const granted = await me.acquired(); // and nobody waits for it any more
      expect(await me.leave(granted.token)).toEqual({ kind: 'left' });
      await eventually(async () => expect(await holders(key)).toEqual([null, null, null]));
    }
    for (const last of await lasts(key)) expect(last).toBeLessThan(held.fence + NUMBERS);
  });

  it('of a renewal counts what a node takes back only from the next one on [G52]', async () => {
    const key = uniqueKey();
    const me = new Party(own, key);
    const held = await me.acquired();
    await quorum.admins[1]?.del(lockOf(key));
    expect((await me.renew(held.token, held.fence)).kind).toBe('renewed');
    await eventually(async () => expect((await holders(key))[1]).toBe(held.token));
    await quorum.admins[0]?.del(lockOf(key));
    await quorum.admins[1]?.del(lockOf(key));
    // Most nodes have lost it: others may have had the key meanwhile.
    expect((await me.renew(held.token, held.fence)).kind).toBe('lost');
    await eventually(async () => expect(await holders(key)).toEqual([null, null, null]));
  });

  it('of an adoption is lost to whoever has adopted the lock on enough nodes, although one has the old token [G54]', async () => {
    const key = uniqueKey();
    const proxies = await Promise.all(
      quorum.servers.slice(0, 2).map(({ port }) => TcpProxy.start(port)),
    );
    const urls = [...proxies.map(({ url }) => url), quorum.urls[2] ?? ''];
    const slow = await openQuorumStore(urls, { leaseMs: LEASE_MS });
    const me = new Party(slow, key);
    const held = await me.acquired(LEASE_MS);
    await taken(key, [0, 1]);
    for (const proxy of proxies) proxy.delayAnswers(50); // the vote of the third comes first
    expect(await me.adopt(held.token, held.fence)).toEqual({ kind: 'lost' });
    await eventually(async () => expect((await holders(key))[2]).toBe(held.token));
    await slow.store.close();
  });

  it('that is the last one of a wait leaves the line everywhere, and passes the turn on [G54]', async () => {
    const key = uniqueKey();
    await taken(key, [0, 1, 2]);
    const me = new Party(own, key);
    const waiting = await me.queued();
    const queues = () =>
      Promise.all(quorum.admins.map((admin) => admin.exists(`${lockOf(key)}:queue`)));
    expect(await queues()).toEqual([1, 1, 1]);
    expect((await me.tryOnceMore(waiting.token)).kind).toBe('left');
    await eventually(async () => expect(await queues()).toEqual([0, 0, 0]));
    const late = await me.queued();
    const turn = `turn:${late.token}`;
    await quorum.admins[0]?.set(lockOf(key), turn, 'PX', LEASE_MS);
    expect((await me.leave(late.token)).kind).toBe('left');
    await eventually(async () => expect((await holders(key))[0]).toBeNull());
  });

  it('that nobody has won yet shows no holder [G54]', async () => {
    const key = uniqueKey();
    const { inspector } = own.store;
    await taken(key, [0]);
    expect(await inspector.inspect(key)).toBeUndefined();
    await taken(key, [1]);
    expect(await inspector.inspect(key)).toBeUndefined();
    const turn = `turn:${tokenOfOther()}`;
    for (const admin of quorum.admins) await admin.set(lockOf(key), turn, 'PX', LEASE_MS);
    expect(await inspector.inspect(key)).toBeUndefined();
    const [survey] = await inspector.survey([key], 9);
    expect(survey).toMatchObject({ locks: new Map(), isPartial: false });
    await taken(key, [1, 2]);
    expect(await inspector.inspect(key)).toMatchObject({ holders: [{ process: undefined }] });
  });

  it('that was won lasts as long as enough nodes keep their votes, for those who look [G54]', async () => {
    const key = uniqueKey();
    const token = tokenOfOther();
    for (const [n, admin] of quorum.admins.entries())
      await admin.set(lockOf(key), token, 'PX', n === 0 ? 60_000 : 20_000);
    const record = await own.store.inspector.inspect(key);
    expect(record?.remainingMs).toBeLessThanOrEqual(20_000);
    expect(record?.remainingMs).toBeGreaterThan(10_000);
  });

  it('is answered "unknown" if too few nodes answer, and never "no" [G51]', async () => {
    const key = uniqueKey();
    await quorum.admins[0]?.hset(lockOf(key), 'a', 'b');
    await quorum.admins[1]?.hset(lockOf(key), 'a', 'b');
    const me = new Party(own, key);
    const token = me.token();
    expect(await me.ask(token, { nowait: true })).toMatchObject({
      kind: 'unknown',
      isLasting: true,
    });
    expect((await me.renew(token, 5)).kind).toBe('unknown');
    expect((await me.release(token, 5)).kind).toBe('unknown');
    expect((await me.adopt(token, 5)).kind).toBe('unknown');
    await eventually(async () => expect(await quorum.admins[2]?.exists(lockOf(key))).toBe(0));
  });
});
