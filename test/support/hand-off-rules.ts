import { deepEqual, equal, ok } from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Granted } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { LEASE_MS, LONG_MS, type Rule } from './contract-party.js';

/** The rules of `adopt`. */
export const HAND_OFF_RULES: Readonly<Record<string, Rule>> = {
  'adopt() gives the lease to the new token, with a length of its own and greater numbers': async ({
    a,
    b,
    key,
  }) => {
    const held = await a.acquired();
    const left = await a.renew(held.token, held.fence, LONG_MS);
    const used = left.kind === 'renewed' ? left.blockEnd : 0;
    const newToken = b.token();
    const adopted = (await b.adopt(held.token, used, newToken)) as Granted;
    deepEqual([adopted.kind, adopted.token, adopted.waiters], ['granted', newToken, 0]);
    ok(adopted.fence > used);
    ok(adopted.blockEnd >= adopted.fence);
    const seen = await a.store.inspector.inspect(key);
    equal(seen?.value, newToken);
    ok((seen?.remainingMs ?? 0) <= LEASE_MS);
    equal((await a.renew(held.token, used)).kind, 'lost');
    equal((await a.release(held.token, used)).kind, 'lost');
    equal((await b.renew(newToken, adopted.fence)).kind, 'renewed');
    equal((await b.release(newToken, adopted.fence)).kind, 'released');
    equal(await a.store.inspector.inspect(key), undefined);
  },
  'adopt() goes above all numbers that the store or the text knows of': async ({ a, b }) => {
    const held = await a.acquired();
    const used = held.fence + 5_000_000;
    const adopted = (await b.adopt(held.token, used)) as Granted;
    ok(adopted.fence > used);
    const again = (await a.adopt(adopted.token, 1)) as Granted;
    ok(again.fence > adopted.fence);
  },
  'adopt() gives it once, and again only to the same new token': async ({ a, b }) => {
    const held = await a.acquired();
    const [mine, other] = [b.token(), a.token()];
    const replies = await Promise.all([
      b.adopt(held.token, held.fence, mine),
      a.adopt(held.token, held.fence, other),
    ]);
    deepEqual(replies.map(({ kind }) => kind).sort(), ['granted', 'lost']);
    const winner = replies[0].kind === 'granted' ? mine : other;
    const again = (await b.adopt(held.token, held.fence, winner)) as Granted;
    deepEqual([again.kind, again.token], ['granted', winner]);
    equal((await b.adopt(held.token, held.fence)).kind, 'lost');
  },
  'adopt() gives no lease that has ended, was released or taken away, or is of another token':
    async ({ a, b, key }) => {
      const ended = await a.acquired(500);
      equal((await b.adopt(ended.token.replace(/\d+$/, '0'), ended.fence)).kind, 'lost');
      await sleep(600);
      equal((await b.adopt(ended.token, ended.fence)).kind, 'lost');
      const released = await a.acquired();
      await a.release(released.token, released.fence);
      equal((await b.adopt(released.token, released.fence)).kind, 'lost');
      const revoked = await a.acquired();
      await b.store.inspector.revoke(key);
      equal((await b.adopt(revoked.token, revoked.fence)).kind, 'lost');
      equal((await b.store.inspector.inspect(key))?.value.startsWith('revoked:'), true);
    },
  'adopt() leaves those that wait in their places, and counts them': async ({ a, b }) => {
    const held = await a.acquired();
    const waiting = await b.queued();
    const adopted = (await b.adopt(held.token, held.fence)) as Granted;
    deepEqual([adopted.kind, adopted.waiters], ['granted', 1]);
    equal((await b.recheck(waiting)).kind, 'queued');
    // A node of a quorum may have voted for the one that waits, for a moment, before the holder came.
    let wanted = await b.told('wanted');
    if (wanted.token === waiting.token) wanted = await b.told('wanted');
    equal(wanted.token, adopted.token);
    await b.release(adopted.token, adopted.fence);
    ok((await b.told('grant')).fence > adopted.fence);
  },
  'adopt() gives no lease that readers share': async ({ a, b }) => {
    const first = await a.reads();
    const second = await b.reads();
    equal((await b.renew(second.token, second.fence)).kind, 'renewed');
    equal((await b.adopt(b.token(), first.fence)).kind, 'lost');
  },
};
