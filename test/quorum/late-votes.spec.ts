/** Answers of an earlier try that come while a later one with the same token is under way, or has won. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Queued, Unknown } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { afterTest } from '../support/after-test.js';
import { Party } from '../support/contract-party.js';
import { eventually } from '../support/eventually.js';
import {
  lockOf,
  openQuorumStore,
  quorumScripts,
  tokenOfOther,
  useQuorum,
} from '../support/own-quorum.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 60_000;

describe('a try that is repeated with its token', () => {
  let own: Awaited<ReturnType<typeof openQuorumStore>>;
  afterEach(() => own.store.close());
  const quorum = useQuorum();
  const { holders } = quorum;

  let proxy: TcpProxy;

  beforeEach(async () => {
    proxy = await TcpProxy.start(quorum.servers[2]?.port ?? 0);
    own = await openQuorumStore([...quorum.urls.slice(0, 2), proxy.url], { leaseMs: LEASE_MS });
  });

  it('keeps the vote of a node whose answers to both tries come at once [G49]', async () => {
    const key = uniqueKey();
    const other = tokenOfOther();
    await quorum.admins[1]?.set(lockOf(key), other, 'PX', LEASE_MS);
    const me = new Party(own, key);
    proxy.holdAnswers();
    const asking = me.ask(me.token(), { nowait: true, leaseMs: LEASE_MS });
    await sleep(700); // the first try has ended after 500 ms, with one vote for and one against it
    proxy.passAnswers();
    const reply = await asking;
    expect(reply).toMatchObject({ kind: 'granted' });
    const { token } = reply as { token: string };
    await sleep(200);
    expect(await holders(key)).toEqual([token, other, token]);
  });

  it('keeps it in the last try of a wait, which has the token of the first [G49]', async () => {
    const key = uniqueKey();
    const other = tokenOfOther();
    for (const n of [0, 1]) await quorum.admins[n]?.set(lockOf(key), other, 'PX', LEASE_MS);
    const me = new Party(own, key);
    proxy.holdAnswers();
    const { token } = await me.queued();
    await eventually(async () => expect((await holders(key))[2]).toBe(token));
    await quorum.admins[0]?.del(lockOf(key));
    const asking = me.tryOnceMore(token);
    await eventually(async () => expect((await holders(key))[0]).toBe(token));
    proxy.passAnswers();
    expect(await asking).toMatchObject({ kind: 'granted', token });
    await sleep(200);
    expect(await holders(key)).toEqual([token, other, token]);
  });

  it('keeps it in an adoption [G49]', async () => {
    const key = uniqueKey();
    const [old, other] = [tokenOfOther(), tokenOfOther()];
    const holdersBefore = [old, other, old];
    for (const [n, token] of holdersBefore.entries())
      await quorum.admins[n]?.set(lockOf(key), token, 'PX', LEASE_MS);
    const me = new Party(own, key);
    const newToken = me.token();
    proxy.holdAnswers();
    const adopting = me.adopt(old, 0, newToken, LEASE_MS);
    await sleep(700);
    proxy.passAnswers();
    expect(await adopting).toMatchObject({ kind: 'granted', token: newToken });
    await sleep(200);
    expect(await holders(key)).toEqual([newToken, other, newToken]);
  });

  it('is not repeated once it was taken back [G50]', async () => {
    const key = uniqueKey();
    await quorum.admins[1]?.set(lockOf(key), tokenOfOther(), 'PX', LEASE_MS);
    const me = new Party(own, key);
    const token = me.token();
    proxy.holdAnswers();
    const asking = me.ask(token, { nowait: true, leaseMs: LEASE_MS });
    await sleep(700);
    // As when several keys are wanted, and the answer for this one does not come in time.
    expect(await me.leave(token)).toEqual({ kind: 'left' });
    await quorum.admins[1]?.del(lockOf(key));
    expect(await asking).toMatchObject({ kind: 'busy' });
    proxy.passAnswers();
    await eventually(async () => expect(await holders(key)).toEqual([null, null, null]));
  });

  it('leaves no place in line behind on a node that was away meanwhile [G54]', async () => {
    const key = uniqueKey();
    const queue = `${lockOf(key)}:queue`;
    const urls = [...quorum.urls.slice(0, 2), proxy.url];
    const brief = await openQuorumStore(urls, { leaseMs: 1_500 }); // gives a node up after 500 ms
    afterTest(() => brief.store.close());
    const other = tokenOfOther();
    for (const admin of quorum.admins) await admin.set(lockOf(key), other, 'PX', LEASE_MS);
    const me = new Party(brief, key);
    const first = await me.queued();
    proxy.silenceAll();
    const second = await me.recheck(first);
    expect(second.kind).toBe('queued');
    await sleep(1_500); // neither the vote nor what takes it back was answered
    expect(await me.leave((second as Queued).token)).toEqual({ kind: 'left' });
    await quorum.admins[2]?.del(queue);
    proxy.heal();
    proxy.cut();
    await eventually(
      async () => expect(await new Party(brief, uniqueKey()).acquired()).toBeDefined(),
      10_000,
    );
    await sleep(1_000);
    expect(await quorum.admins[2]?.exists(queue)).toBe(0);
  });
});

describe('votes whose numbers must be stored first, because the clock of a node is ahead', () => {
  const quorum = useQuorum();
  const { holders } = quorum;

  let proxies: TcpProxy[];
  let own: Awaited<ReturnType<typeof openQuorumStore>>;
  let key: string;
  const other = tokenOfOther();
  const ahead = (Date.now() + 60_000) * 1_000;

  beforeEach(async () => {
    proxies = await Promise.all(quorum.servers.map(({ port }) => TcpProxy.start(port)));
    own = await openQuorumStore(
      proxies.map(({ url }) => url),
      { leaseMs: LEASE_MS },
    );
    key = uniqueKey();
    await quorum.admins[2]?.set(`${lockOf(key)}:fence`, `${ahead} ${ahead}`);
    await quorum.admins[1]?.set(lockOf(key), other, 'PX', LEASE_MS); // so that the vote of that node is needed
  });
  afterEach(() => own.store.close());

  /** Asks, and lets all votes end before this process learns of them, as when it was suspended. */
  async function askAndSleep(nowait: boolean) {
    const me = new Party(own, key);
    const token = me.token();
    for (const proxy of proxies) proxy.holdAnswers();
    const asking = me.ask(token, { nowait, leaseMs: LEASE_MS });
    await eventually(async () => expect(await holders(key)).toEqual([token, other, token]));
    for (const n of [0, 2]) await quorum.admins[n]?.del(lockOf(key));
    for (const proxy of proxies) proxy.passAnswers();
    return { me, reply: await asking };
  }

  it('are asked for again by a single try, if they have ended meanwhile', async () => {
    const { reply } = await askAndSleep(true);
    expect(reply).toMatchObject({ kind: 'granted' });
    expect((reply as { fence: number }).fence).toBeGreaterThan(ahead);
  });

  it('let a waiter look again soon, if they have ended meanwhile', async () => {
    const { me, reply } = await askAndSleep(false);
    expect(reply.kind).toBe('queued');
    expect((reply as Queued).remainingMs).toBeLessThan(50);
    expect(await me.recheck(reply as Queued)).toMatchObject({ kind: 'granted' });
  });

  it('are no lease if too few nodes answer, which the error names, and no other', async () => {
    const [silent, ...others] = proxies as [TcpProxy, TcpProxy, TcpProxy];
    const silence = silent.silenceAt(quorumScripts().raise.sha);
    const me = new Party(own, key);
    const reply = await me.ask(me.token(), { nowait: true, leaseMs: LEASE_MS });
    await silence;
    expect(reply).toMatchObject({ kind: 'unknown', neverRan: false });
    const { message } = (reply as Unknown).cause;
    expect(message).toContain(`${silent.url}: no answer within 500 ms`);
    for (const { url } of others) expect(message).not.toContain(url);
  });
});
