import { deepEqual, equal, notEqual, ok } from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  introducedAt,
  labelOf,
  leaseToken,
} from '../../libs/nestjs-locked/src/core/store/lease-token.js';
import type { LockSurvey } from '../../libs/nestjs-locked/src/core/store/lock-inspector.js';
import type { Granted, Queued } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { type ContractStores, LEASE_MS, LONG_MS, Party, type Rule } from './contract-party.js';
import { HAND_OFF_RULES } from './hand-off-rules.js';
import { PERMIT_RULES } from './permit-rules.js';
import { READER_RULES } from './reader-rules.js';

export type { ContractStore, ContractStores } from './contract-party.js';

/** One rule that a store must obey. `run` rejects if the store violates it. */
export interface ContractCase {
  /** The rule, used as the name of a test. */
  readonly title: string;
  /** Checks the rule with two opened stores and a key that no other case uses. */
  readonly run: (stores: ContractStores, key: string) => Promise<void>;
}

/** With everything that a label may have. */
const LABELS = ['StockService.take', "the 5% job: {1} of O'Neil, ночью \u{1F319}"];

/**
 * Patterns, and the names that they match. An unclosed bracket or a final backslash extends to the closing brace of the
 * Redis key.
 */
const PATTERNS: Readonly<Record<string, readonly string[]>> = {
  '[^2]': ['1', 'b', '^', ']', '-', '\\', '$'],
  '[12^]': ['1', '2', '^'],
  '[2-1]': ['1', '2'],
  '[1-]': [''],
  '[]': [],
  '[^]': ['1', '2', 'b', '^', ']', '-', '\\', '$'],
  '[]]': [],
  '\\[1\\]': ['[1]'],
  '[\\]\\^]': [']', '^'],
  '[\\\\]': ['\\'],
  '\\\\': ['\\'],
  '\\1': ['1'],
  $: ['$'],
  '?': ['1', '2', 'b', '^', ']', '-', '\\', '$'],
  '??': ['12', 'é'],
  '1*': ['1', '12'],
  '[12': [''],
  '\\': [''],
};

const RULES: Readonly<Record<string, Rule>> = {
  'a reader passes the first in the queue only if that one has stopped': async ({ a, b }) => {
    const held = await a.ask(a.reader(), { leaseMs: LONG_MS });
    equal(held.kind, 'granted');
    const writer = await a.queued();
    equal(writer.head, undefined);
    const waiting = (await b.ask(b.reader())) as Queued;
    equal(waiting.kind, 'queued');
    equal(waiting.head, writer.token);
    const again = (await b.recheck(waiting)) as Queued;
    equal(again.kind, 'queued');
    const other = (await b.recheck(again, b.token())) as Queued;
    equal(other.kind, 'queued');
    equal((await b.recheck(other, writer.token)).kind, 'granted');
    const back = await a.recheck(writer); // it lives after all
    equal(back.kind, 'queued');
    equal(back.position, writer.position);
  },

  'acquire() grants a free lock, again for the same token, and queues another process': async ({
    a,
    b,
  }) => {
    const token = a.token();
    const first = await a.ask(token);
    equal(first.kind, 'granted');
    const again = await a.ask(token);
    deepEqual([again.kind, (again as Granted).token], ['granted', token]);
    const waiting = await b.queued();
    ok(waiting.remainingMs > 0 && waiting.remainingMs <= LEASE_MS);
    equal((await a.told('wanted')).token, token);
  },
  'acquire() with nowait neither joins the queue nor overtakes it': async ({ a, b }) => {
    const held = await a.acquired();
    equal((await b.ask(b.token(), { nowait: true })).kind, 'busy');
    equal((await a.renew(held.token, held.fence)).kind, 'renewed');
    const waiting = await b.queued();
    equal((await a.release(held.token, held.fence)).kind, 'released');
    equal((await a.ask(a.token(), { nowait: true })).kind, 'busy');
    equal((await b.told('grant')).token, waiting.token);
  },
  'a lease ends on its own, and nothing extends one that has ended': async ({ a, b }) => {
    const held = await a.acquired(500);
    await sleep(600);
    equal((await a.renew(held.token, held.fence)).kind, 'lost');
    const next = await b.acquired();
    equal((await a.release(held.token, held.fence)).kind, 'lost');
    equal((await b.renew(next.token, next.fence)).kind, 'renewed');
  },
  'renew() extends only for the owner, never shortens, and counts the waiters': async ({
    a,
    b,
  }) => {
    const held = await a.acquired();
    equal((await b.renew(held.token.replace(/\d+$/, '0'), 0)).kind, 'lost');
    await a.renew(held.token, held.fence, 60_000);
    const renewed = await a.renew(held.token, held.fence, LEASE_MS);
    deepEqual([renewed.kind, renewed.kind === 'renewed' && renewed.waiters], ['renewed', 0]);
    const waiting = await b.queued();
    ok(waiting.remainingMs > LEASE_MS);
    const told = await a.renew(held.token, held.fence);
    equal(told.kind === 'renewed' && told.waiters, 1);
  },
  'release() hands over to the first waiter, with a short lease that it can confirm': async ({
    a,
    b,
  }) => {
    const held = await a.acquired();
    const waiting = await b.queued();
    equal((await a.release(held.token, held.fence)).kind, 'released');
    const grant = await b.told('grant');
    equal(grant.token, waiting.token);
    ok(grant.fence > held.fence);
    ok(grant.acceptMs <= LEASE_MS);
    equal((await b.renew(grant.token, grant.fence)).kind, 'renewed');
    equal((await a.release(held.token, held.fence)).kind, 'lost');
  },
  'fencing tokens rise with every lease, above all that were used': async ({ a, b }) => {
    const first = await a.acquired();
    const used = first.fence + 1_000;
    const renewed = await a.renew(first.token, first.fence, LEASE_MS, 1_000);
    ok(renewed.kind === 'renewed' && renewed.blockEnd >= used);
    await a.release(first.token, used);
    const second = await b.acquired();
    ok(second.fence > used);
  },
  'fencing tokens rise above the whole block of a holder that ended without a report': async ({
    a,
    b,
  }) => {
    const first = await a.acquired(500);
    await sleep(600);
    ok((await b.acquired()).fence > first.blockEnd);
  },
  'requeue() hands over and joins the end of the queue, or gets the lease again': async ({
    a,
    b,
  }) => {
    const held = await a.acquired();
    const again = await a.requeue(held.token, held.fence, a.token());
    equal(again.kind, 'granted');
    const { token, fence } = again;
    ok(fence > held.fence);
    const waiting = await b.queued();
    equal((await a.requeue(token, fence, a.token())).kind, 'queued');
    equal((await b.told('grant')).token, waiting.token);
  },
  'requeue() keeps the position of a call that has waited': async ({ a, b }) => {
    const held = await a.acquired();
    await sleep(200);
    const first = await b.queued();
    await sleep(200);
    const earlier = await a.requeue(held.token, held.fence, a.token(), 60_000);
    equal(earlier.kind, 'granted');
    const { token, fence } = earlier as Granted;
    const later = await a.requeue(token, fence, a.token(), 100);
    equal(later.kind, 'queued');
    ok((later as Queued).position > first.position);
    equal((await b.told('grant')).token, first.token);
  },
  'recheck() keeps the position with a new token, even when the old one is gone': async ({
    a,
    b,
  }) => {
    const held = await a.acquired();
    const waiting = await b.queued();
    const later = await a.ask(a.token());
    equal(later.kind, 'queued');
    await b.leave(waiting.token);
    const back = await b.recheck(waiting);
    deepEqual([back.kind, (back as Queued).position], ['queued', waiting.position]);
    await a.release(held.token, held.fence);
    equal((await b.told('grant')).token, (back as Queued).token);
  },
  'recheck() takes a lock that has become free': async ({ a, b }) => {
    await a.acquired(500);
    const waiting = await b.queued();
    await sleep(600);
    equal((await b.recheck(waiting)).kind, 'granted');
  },
  'takeBack() gives up the position, and passes a grant that crosses it on to the next': async ({
    a,
    b,
  }) => {
    const held = await a.acquired();
    const waiting = await b.queued();
    const behind = await a.ask(a.token());
    await a.release(held.token, held.fence);
    equal((await b.leave(waiting.token)).kind, 'left');
    equal((await a.told('grant')).token, (behind as Queued).token);
  },
  'leave() as a last try takes its own lock, or a free one': async ({ a, b }) => {
    const held = await a.acquired();
    const waiting = await b.queued();
    await a.release(held.token, held.fence);
    const reply = await b.tryOnceMore(waiting.token);
    deepEqual([reply.kind, (reply as Granted).token], ['granted', waiting.token]);
  },
  'renew() and takeBack() answer for each of many keys, whatever happens to the others': async ({
    a,
    b,
    key,
  }) => {
    const keys = ['held', 'of nobody', 'handed over', 'kept'].map((each) => `${key}:${each}`);
    const [held, , handedOver, kept] = keys.map((each) => a.at(each)) as [
      Party,
      Party,
      Party,
      Party,
    ];
    const first = await held.acquired();
    const second = await handedOver.acquired();
    const third = await kept.acquired();
    const waiter = await b.at(keys[2] as string).queued();
    const tokens = [first.token, a.token(), second.token, third.token];
    const renewals = tokens.map((token, i) => {
      return { key: keys[i] as string, token, leaseMs: LEASE_MS, used: 0, reserves: 0 };
    });
    const renewed = await Promise.all(a.store.renew(renewals));
    deepEqual(
      renewed.map(({ kind }) => kind),
      ['renewed', 'lost', 'renewed', 'renewed'],
    );
    const used = third.fence + 1_000_000;
    await kept.renew(third.token, used); // a database has seen such a number
    const commands = tokens.map((token, i) => {
      const command = { key: keys[i] as string, tokens: [a.token(), token] as const };
      return i === 3 ? { ...command, tokens: [token] as const, used, keepMs: 400 } : command;
    });
    for (let again = 0; again < 2; again++) {
      const replies = await Promise.all(a.store.takeBack(commands));
      deepEqual(
        replies.map(({ kind }) => kind),
        ['left', 'left', 'left', 'left'],
      );
    }
    const { inspector } = b.store;
    equal(await inspector.inspect(keys[0] as string), undefined);
    equal((await b.at(keys[2] as string).told('grant')).token, waiter.token);
    const behind = await b.at(keys[3] as string).queued();
    ok(behind.remainingMs <= 400 && !behind.foreign);
    await sleep(500);
    const next = await b.at(keys[3] as string).recheck(behind);
    ok(next.kind === 'granted' && next.fence > used);
  },
  'waiters are served in the order of their arrival': async ({ a, b }) => {
    let holder = await a.acquired();
    const waiting = [await b.queued(), await b.queued(), await b.queued()];
    for (const { token } of waiting) {
      await (holder.token.startsWith(a.store.processId) ? a : b).release(
        holder.token,
        holder.fence,
      );
      const grant = await b.told('grant');
      equal(grant.token, token);
      holder = { ...grant, kind: 'granted' };
    }
  },
  'the next in the queue is told when a short lease ahead of it ends': async ({ a, b }) => {
    const held = await a.acquired();
    await b.queued();
    const behind = await b.queued();
    await a.release(held.token, held.fence);
    equal((await b.told('head')).token, behind.token);
  },
  'release() with keepMs keeps the key taken without a holder': async ({ a, b }) => {
    const held = await a.acquired();
    await a.release(held.token, held.fence, 400);
    const waiting = await b.queued();
    ok(waiting.remainingMs <= 400 && !waiting.foreign);
    await sleep(500);
    equal((await b.recheck(waiting)).kind, 'granted');
  },
  'takeBack() with keepMs keeps a key that is free by now, and does not touch the lease of another':
    async ({ a, b }) => {
      const gone = await a.acquired();
      const next = (await a.release(gone.token, gone.fence), await b.acquired());
      const keep = () => Promise.all(a.store.takeBack([{ ...a.of(gone.token), keepMs: 400 }]));
      deepEqual(await keep(), [{ kind: 'left' }]);
      equal((await b.renew(next.token, next.fence)).kind, 'renewed');
      await b.release(next.token, next.fence);
      deepEqual(await keep(), [{ kind: 'left' }]);
      const waiting = await b.queued();
      ok(waiting.remainingMs <= 400 && !waiting.foreign);
      await sleep(500);
      const after = await b.recheck(waiting);
      equal(after.kind, 'granted');
      ok(after.kind === 'granted' && after.fence > next.fence);
    },
  'a lease is never shortened by asking again': async ({ a, b }) => {
    const token = a.token();
    await a.ask(token, { leaseMs: LONG_MS });
    equal((await a.ask(token)).kind, 'granted');
    const waiting = await b.queued();
    ok(waiting.remainingMs > LEASE_MS);
    await a.release(token, 0);
    await b.renew(waiting.token, 0, LONG_MS);
    equal((await b.recheck(waiting)).kind, 'granted');
    const behind = await a.queued();
    ok(behind.remainingMs > LEASE_MS);
    equal((await b.tryOnceMore(waiting.token)).kind, 'granted');
    const renewed = await a.recheck(behind);
    ok(renewed.kind === 'queued' && renewed.remainingMs > LEASE_MS);
  },
  'renew() reserves above the used numbers, even when they exceed the stored one': async ({
    a,
    b,
  }) => {
    const held = await a.acquired();
    const used = held.blockEnd + 1_000_000_000;
    const renewed = await a.renew(held.token, used, 500);
    ok(renewed.kind === 'renewed' && renewed.blockEnd > used);
    const [left] = a.store.takeBack([a.of(held.token)]); // does not report the used numbers
    equal((await left)?.kind, 'left');
    ok((await b.acquired()).fence > renewed.blockEnd);
  },
  'a position in the queue is not reclaimed after a lease has lapsed: it may have been used':
    async ({ a, b }) => {
      await a.acquired(LONG_MS);
      const early = await b.queued();
      const next = await a.queued();
      await b.leave(early.token);
      await a.lapse();
      equal((await a.recheck(next)).kind, 'granted');
      const later = await a.queued();
      const back = await b.recheck(early);
      ok(back.kind === 'queued' && back.position > later.position);
      const still = await a.recheck(later);
      ok(still.kind === 'queued' && still.position === later.position);
    },
  'recheck() asked twice keeps the position in the queue, even after a lease has lapsed': async ({
    a,
    b,
    key,
  }) => {
    await a.acquired(LONG_MS);
    const first = await b.queued();
    await a.lapse();
    equal((await b.recheck(first)).kind, 'granted');
    const { token, position } = await b.queued();
    await a.queued();
    const command = { key, token, newToken: b.token(), leaseMs: LEASE_MS, position };
    for (let again = 0; again < 2; again++) {
      const reply = await b.store.recheck(command);
      ok(reply.kind === 'queued' && reply.position === position);
    }
  },
  'release() gives the lock to the first live waiter, however many dead ones are ahead of it':
    async ({ a, b }) => {
      const held = await a.acquired(LONG_MS);
      await a.abandoned(1_500);
      const waiting = await b.queued();
      await a.abandoned(10);
      const second = await b.queued();
      equal((await a.release(held.token, held.fence)).kind, 'released');
      equal((await b.told('grant')).token, waiting.token);
      equal((await b.told('head')).token, second.token);
      equal((await b.leave(waiting.token)).kind, 'left');
      equal((await b.told('grant')).token, second.token);
    },
  'the first live waiter is told how long a lock is kept, even behind dead ones': async ({
    a,
    b,
  }) => {
    const held = await a.acquired(LONG_MS);
    await a.abandoned(2);
    const waiting = await b.queued();
    await a.release(held.token, held.fence, 60_000);
    const { token, ms } = await b.told('head');
    equal(token, waiting.token);
    ok(ms > 59_000 && ms <= 60_000); // the rest of the lease, read a moment later
  },
  'a free lock is granted at once although dead waiters are in its queue': async ({
    a,
    b,
    key,
  }) => {
    const asks: ((party: Party) => Promise<{ kind: string }>)[] = [
      (party) => party.ask(party.token()),
      (party) => party.ask(party.token(), { nowait: true }),
      (party) => party.tryOnceMore(party.token()),
      async (party) => (await party.askTogether([`${key}:3`]))[0] as { kind: string },
    ];
    const check = async (ask: (party: Party) => Promise<{ kind: string }>, i: number) => {
      const before = a.at(`${key}:${i}`);
      await before.acquired(LONG_MS);
      await before.abandoned(3);
      await before.lapse();
      const reply = (await ask(b.at(`${key}:${i}`))) as Granted;
      deepEqual([reply.kind, reply.waiters], ['granted', 0]);
    };
    await Promise.all(asks.map(check));
  },
  'a single try, and a last one, give a free lock to the first waiter': async ({ a, b, key }) => {
    const check = async (isLast: boolean): Promise<void> => {
      const [before, waiter] = [a, b].map((each) => each.at(`${key}:${isLast}`)) as [Party, Party];
      await before.acquired(LONG_MS);
      const waiting = await waiter.queued();
      await before.lapse();
      const tried = before.token();
      const { kind } = isLast
        ? await before.tryOnceMore(tried)
        : await before.ask(tried, { nowait: true });
      equal(kind, isLast ? 'left' : 'busy');
      equal((await waiter.told('grant')).token, waiting.token);
    };
    await Promise.all([check(false), check(true)]);
  },
  'acquireTogether() takes all or none, whichever key is held, and asks its holder for it': async ({
    a,
    b,
    key,
  }) => {
    const keys = [`${key}:x`, `${key}:y`, `${key}:z`];
    for (const [taken, key] of keys.entries()) {
      const token = b.token();
      await b.store.acquire({ key, token, leaseMs: LEASE_MS, nowait: true });
      for (const reply of await a.askTogether(keys)) equal(reply.kind, 'busy');
      const replies = await a.askTogether(keys);
      for (const [i, reply] of replies.entries()) {
        ok(reply.kind === 'busy');
        equal(reply.wasFree === true, i !== taken);
        equal(reply.remainingMs > 0, i === taken);
        equal(
          await b.store.inspector.inspect(keys[i] as string).then((it) => it?.value),
          i === taken ? token : undefined,
        );
      }
      await b.at(key).told('wanted');
      await b.store.release({ key, token, used: 0 });
    }
    const replies = await a.askTogether(keys);
    for (const [i, reply] of replies.entries()) {
      ok(reply.kind === 'granted');
      const record = await b.store.inspector.inspect(keys[i] as string);
      equal(record?.value, reply.token);
      ok(reply.blockEnd >= reply.fence);
    }
  },
  'acquireTogether() overtakes no live waiter, and is not blocked by dead ones': async ({
    a,
    b,
    key,
  }) => {
    const check = async (awaited: number): Promise<void> => {
      const keys = [`${key}:${awaited}:x`, `${key}:${awaited}:y`];
      const parties = keys.map((each) => b.at(each));
      for (const party of parties) {
        await party.acquired(LONG_MS);
        await party.abandoned(2);
      }
      const waiter = parties[awaited] as Party;
      const waiting = await waiter.queued();
      await Promise.all(parties.map((party) => party.lapse()));
      for (const [i, reply] of (await a.askTogether(keys)).entries()) {
        ok(reply.kind === 'busy');
        equal(reply.wasFree === true, i !== awaited);
      }
      equal((await waiter.told('grant')).token, waiting.token);
      equal((await waiter.release(waiting.token, 0)).kind, 'released');
      for (const reply of await a.askTogether(keys)) {
        ok(reply.kind === 'granted' && reply.waiters === 0);
      }
    };
    await Promise.all([check(0), check(1)]);
  },
  'acquireTogether() asked again grants the same tokens, or none if one was lost': async ({
    a,
    b,
    key,
  }) => {
    const keys = [`${key}:x`, `${key}:y`];
    const commands = keys.map((each) => ({
      key: each,
      token: a.token(),
      leaseMs: LEASE_MS,
      nowait: true,
    }));
    await a.store.acquireTogether(commands);
    const again = await a.store.acquireTogether(commands);
    deepEqual(
      again.map((reply) => reply.kind === 'granted' && reply.token),
      commands.map(({ token }) => token),
    );
    await b.store.inspector.revoke(keys[1] as string);
    for (const reply of await a.store.acquireTogether(commands)) equal(reply.kind, 'busy');
    equal(await b.store.inspector.inspect(keys[0] as string), undefined);
  },
  'revoke() takes the key away and tells the holder': async ({ a, b, key }) => {
    const held = await a.acquired();
    const revoked = await b.store.inspector.revoke(key);
    deepEqual([revoked?.value, typeof revoked?.holders[0]?.process?.pid], [held.token, 'number']);
    equal(await b.store.inspector.revoke(key), undefined);
    equal((await a.told('revoked')).token, held.token);
    equal((await a.renew(held.token, held.fence)).kind, 'lost');
  },
  'revoke() takes the key from the holder that is meant, and from no other': async ({
    a,
    b,
    key,
  }) => {
    const held = await a.acquired();
    equal(await b.store.inspector.revoke(key, `${held.token}0`), undefined);
    equal((await a.renew(held.token, held.fence)).kind, 'renewed');
    equal((await b.store.inspector.revoke(key, held.token))?.value, held.token);
    equal((await a.renew(held.token, held.fence)).kind, 'lost');
  },
  'inspect() names those that wait, in order, as many as are asked for': async ({ a, b, key }) => {
    await a.acquired();
    const first = await b.queued();
    const second = await b.queued();
    const queueOf = async (most?: number) =>
      (await a.store.inspector.inspect(key, most))?.queue.map(({ token }) => token);
    deepEqual(await queueOf(), []);
    deepEqual(await queueOf(1), [first.token]);
    deepEqual(await queueOf(9), [first.token, second.token]);
    const record = await a.store.inspector.inspect(key, 9);
    for (const { waitedMs, process } of record?.queue ?? []) {
      ok(waitedMs >= 0 && waitedMs < 60_000);
      equal(process?.pid, record?.holders[0]?.process?.pid);
    }
  },
  'survey() finds what is held and who waits': async ({ a, b, key }) => {
    const held = await a.acquired(LONG_MS);
    await b.queued();
    const other = await a.at(`${key}:other`).acquired(LONG_MS);
    await b.store.inspector.revoke(`${key}:other`);
    const survey = async (...patterns: string[]) =>
      (await b.store.inspector.survey(patterns, 9)) as LockSurvey[];
    const [{ locks, isPartial }, none, some] = (await survey(`${key}*`, `${key}?`, `${key}:*`)) as [
      LockSurvey,
      LockSurvey,
      LockSurvey,
    ];
    equal(isPartial, false);
    deepEqual([...locks.keys()].sort(), [key, `${key}:other`]);
    const { value, waiters, waitedMs = NaN } = locks.get(key) ?? {};
    deepEqual([value, waiters], [held.token, 1]);
    ok(waitedMs >= 0 && waitedMs < 60_000);
    notEqual(locks.get(`${key}:other`)?.value, other.token);
    equal(none.locks.size, 0);
    deepEqual([...some.locks.keys()], [`${key}:other`]);
    const limited = (await b.store.inspector.survey([`${key}*`, `${key}:*`], 1)) as LockSurvey[];
    deepEqual(
      limited.map((it) => [it.isPartial, it.locks.size]),
      [
        [true, 1],
        [false, 1],
      ],
    );
  },
  'inspect() and list() show the holder, and who waits': async ({ a, b, key }) => {
    equal(await b.store.inspector.inspect(key), undefined);
    const held = await a.acquired();
    await b.queued();
    for (const { store } of [a, b]) {
      const record = await store.inspector.inspect(key);
      const { value, waiters, waitsHere } = record ?? {};
      deepEqual([value, waiters, waitsHere], [held.token, 1, store === b.store ? 1 : 0]);
    }
    const found: string[] = [];
    for await (const other of b.store.inspector.list(`${key.slice(0, 8)}*`)) found.push(other);
    ok(found.includes(key));
  },
  'a token with a label is held, renewed, handed over and returned like any other': async ({
    a,
    b,
    key,
  }) => {
    const tokens = [a, b].map(({ store }, i) =>
      leaseToken(store.processId, 7_000 + i, false, LABELS[i]),
    );
    const [first = '', second = ''] = tokens;
    const held = await a.ask(first);
    equal(held.kind, 'granted');
    equal((await b.ask(second)).kind, 'queued');
    await a.told('wanted');
    equal((await a.renew(first, 0)).kind, 'renewed');
    equal(labelOf((await b.store.inspector.inspect(key))?.value ?? ''), LABELS[0]);
    equal((await a.release(first, 0)).kind, 'released');
    equal((await b.told('grant')).token, second);
    equal(labelOf((await a.store.inspector.inspect(key))?.value ?? ''), LABELS[1]);
    equal((await b.store.inspector.revoke(key))?.value, second);
    equal((await b.told('revoked')).token, second);
  },
  'inspect() shows neither holder nor time of a key that is only kept': async ({ a, b, key }) => {
    const held = await a.acquired();
    equal((await b.store.inspector.inspect(key))?.value, held.token);
    equal((await a.release(held.token, held.fence, 60_000)).kind, 'released');
    const record = await b.store.inspector.inspect(key);
    notEqual(record, undefined);
    deepEqual([introducedAt(record?.value ?? ''), record?.holders], [undefined, []]);
  },
  'a question reaches the process that has the key, and its answer the one that asks': async ({
    a,
    b,
    key,
  }) => {
    deepEqual(await b.store.inspector.ask(key, '1'), []);
    const held = await a.acquired();
    for (const party of [b, a]) {
      const { token } = held;
      const asked = await party.store.inspector.ask(key, '7');
      deepEqual(asked, [{ token, id: '7.1', isHeard: true, keepsOut: true }]);
      const question = await a.told('question');
      const { processId: from } = party.store;
      deepEqual(question, { kind: 'question', key, token, from, id: '7.1' });
      await a.store.inspector.answer(question, '{"a": "b  c"}');
      deepEqual(await party.answered(), { kind: 'answer', id: '7.1', text: '{"a": "b  c"}' });
    }
    equal((await a.release(held.token, held.fence, 60_000)).kind, 'released');
    deepEqual(await b.store.inspector.ask(key, '8'), []);
  },
  'list() understands patterns as Redis does, and refuses none': async ({ a, b, key }) => {
    const names = ['1', '2', '12', 'b', '[1]', '^', ']', '-', '\\', '$', '', 'é'];
    await Promise.all(names.map((name) => a.at(`${key}:${name}`).acquired(LONG_MS)));
    for (const [pattern, expected] of Object.entries(PATTERNS)) {
      const found: string[] = [];
      for await (const other of b.store.inspector.list(`${key}:${pattern}`)) found.push(other);
      const [survey] = await b.store.inspector.survey([`${key}:${pattern}`], 99);
      for (const names of [found, [...(survey as LockSurvey).locks.keys()]]) {
        const fits = names.map((other) => other.slice(key.length + 1));
        deepEqual([pattern, ...fits.sort()], [pattern, ...expected.toSorted()]);
      }
    }
  },
};

/**
 * The rules that every store must obey, as cases for any test runner.
 *
 * @example it.each(lockStoreContract)('$title', ({ run }) => run(stores, randomUUID()));
 */
export const lockStoreContract: readonly ContractCase[] = Object.entries({
  ...RULES,
  ...READER_RULES,
  ...PERMIT_RULES,
  ...HAND_OFF_RULES,
}).map(([title, rule]) => ({
  title,
  run: (stores, key) => rule({ a: new Party(stores.a, key), b: new Party(stores.b, key), key }),
}));
