import { deepEqual, equal, ok } from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { leaseToken } from '../../libs/nestjs-locked/src/core/store/lease-token.js';
import type { Queued } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { LEASE_MS, LONG_MS, type Rule } from './contract-party.js';

/** More readers than a script lets in at once. */
const CROWD = 300;

/** What a store owes those who read (`mode: 'shared'`), whose tokens end with an `s`. */
export const READER_RULES: Readonly<Record<string, Rule>> = {
  'a question reaches all readers, who keep others out only if a writer is the first that waits':
    async ({ a, b, key }) => {
      const readers = [await a.reads(LONG_MS), await b.reads(LONG_MS)];
      const asked = (keepsOut: boolean) =>
        readers.map(({ token }, i) => ({ token, id: `7.${i + 1}`, isHeard: true, keepsOut }));
      deepEqual(await a.store.inspector.ask(key, '7'), asked(false));
      const { processId: from } = a.store;
      for (const [i, party] of [a, b].entries()) {
        const token = readers[i]?.token;
        deepEqual(await party.told('question'), {
          kind: 'question',
          key,
          token,
          from,
          id: `7.${i + 1}`,
        });
      }
      const writer = await b.queued();
      const reader = await a.waitsToRead();
      deepEqual(await b.store.inspector.ask(key, '7'), asked(true));
      await b.leave(writer.token);
      equal((await a.renew(reader.token, 0)).kind, 'renewed');
      equal(
        (await b.store.inspector.ask(key, '8')).every(({ keepsOut }) => keepsOut),
        false,
      );
    },
  'a question reaches sixteen readers at the most': async ({ a, b, key }) => {
    const readers: string[] = [];
    for (let i = 0; i < 20; i++) readers.push((await (i % 2 ? a : b).reads(LONG_MS)).token);
    const asked = await a.store.inspector.ask(key, '7');
    deepEqual(
      asked.map(({ token }) => token),
      readers.slice(0, 16),
    );
  },
  'readers join each other, each with a lease and a higher fencing token of its own': async ({
    a,
    b,
  }) => {
    const first = await a.reads();
    const second = await b.reads();
    const third = await b.ask(b.reader(), { nowait: true });
    equal(third.kind, 'granted');
    ok(first.fence < second.fence && second.fence < third.fence);
    for (const [party, { token, fence }] of [[a, first] as const, [b, second], [b, third]] as const)
      equal((await party.renew(token, fence)).kind, 'renewed');
  },
  'a reader that asks again has the same lease': async ({ a, b }) => {
    const first = await a.reads(LONG_MS);
    const second = await b.reads();
    const again = await b.ask(second.token);
    ok(again.kind === 'granted' && again.token === second.token && again.fence > first.fence);
    equal((await b.release(second.token, 0)).kind, 'released');
    equal((await b.renew(second.token, 0)).kind, 'lost');
    equal((await a.renew(first.token, 0)).kind, 'renewed');
  },
  'a writer waits for all readers, who are told so, and its fencing token is above theirs': async ({
    a,
    b,
  }) => {
    const readers = [await a.reads(LONG_MS), await a.reads(LONG_MS)];
    equal((await b.ask(b.token(), { nowait: true })).kind, 'busy');
    for (const { token } of readers) equal((await a.told('wanted')).token, token);
    const writer = await b.queued();
    ok(writer.remainingMs > LEASE_MS && !writer.foreign);
    for (const { token } of readers) equal((await a.told('wanted')).token, token);
    const [first, last] = readers as [(typeof readers)[0], (typeof readers)[0]];
    equal((await a.release(first.token, 0)).kind, 'released');
    equal((await b.recheck(writer)).kind, 'queued');
    equal((await a.told('wanted')).token, last.token);
    const renewed = await a.renew(last.token, 0);
    equal(renewed.kind === 'renewed' && renewed.waiters, 1);
    await a.release(last.token, 0);
    ok((await b.told('grant')).fence > last.fence);
  },
  'once somebody waits, no reader joins': async ({ a, b }) => {
    const held = await a.reads();
    const writer = await b.queued();
    await b.waitsToRead();
    equal((await b.ask(b.reader(), { nowait: true })).kind, 'busy');
    await a.release(held.token, 0);
    equal((await b.told('grant')).token, writer.token);
  },
  'a dead writer in the queue keeps no reader out': async ({ a, b }) => {
    await a.reads();
    await a.abandoned(3);
    await b.reads();
    await a.abandoned(1);
    equal((await b.ask(b.reader(), { nowait: true })).kind, 'granted');
  },
  'the release of a writer lets in all readers that wait, with short leases, and tells the next writer':
    async ({ a, b }) => {
      const held = await a.acquired();
      const first = await b.waitsToRead();
      const writer = await b.queued();
      const second = await a.waitsToRead();
      await a.release(held.token, held.fence);
      const grants = [await b.told('grant'), await a.told('grant')];
      deepEqual(
        grants.map(({ token }) => token),
        [first.token, second.token],
      );
      for (const { acceptMs, fence } of grants) ok(acceptMs <= LEASE_MS && fence > held.fence);
      equal((await b.told('head')).token, writer.token);
      equal((await b.release(first.token, 0)).kind, 'released');
      equal((await a.release(second.token, 0)).kind, 'released');
      const granted = await b.told('grant');
      equal(granted.token, writer.token);
      ok(grants.every(({ fence }) => fence < granted.fence));
    },
  'the short lease of a reader that does not accept it keeps nobody out for longer': async ({
    a,
    b,
  }) => {
    const held = await a.acquired();
    await b.waitsToRead();
    await b.waitsToRead();
    const writer = await a.queued();
    await a.release(held.token, held.fence);
    const [{ acceptMs }] = [await b.told('grant'), await b.told('grant')];
    await sleep(acceptMs + 50);
    equal((await a.recheck(writer)).kind, 'granted');
  },
  'a writer that releases and asks again lets in all readers first': async ({ a, b }) => {
    const held = await a.acquired();
    const waiting = [await b.waitsToRead(), await b.waitsToRead()];
    equal((await a.requeue(held.token, held.fence, a.token())).kind, 'queued');
    for (const { token } of waiting) equal((await b.told('grant')).token, token);
  },
  'a writer that gives up, or ends its wait, lets in the readers behind it': async ({ a, b }) => {
    await a.reads(LONG_MS);
    for (const ends of ['leave', 'tryOnceMore'] as const) {
      const writer = await b.queued();
      const readers = [await a.waitsToRead(), await b.waitsToRead()];
      equal((await b[ends](writer.token)).kind, 'left');
      equal((await a.told('grant')).token, readers[0]?.token);
      equal((await b.told('grant')).token, readers[1]?.token);
    }
  },
  'a writer that goes lets in nobody while another one waits before the readers': async ({
    a,
    b,
  }) => {
    const held = await a.reads(LONG_MS);
    const [first, second] = [await a.queued(), await b.queued()];
    const reader = await b.waitsToRead();
    equal((await a.leave(first.token)).kind, 'left');
    equal((await b.recheck(reader)).kind, 'queued');
    await a.release(held.token, 0);
    equal((await b.told('grant')).token, second.token);
  },
  'a reader that re-checks after a lease has lapsed lets in the others': async ({ a, b }) => {
    await a.acquired(400);
    const [first, second] = [await b.waitsToRead(), await a.waitsToRead()];
    await sleep(500);
    equal((await b.recheck(first)).kind, 'granted');
    equal((await a.told('grant')).token, second.token);
  },
  'a reader takes its turn with others that read, whichever of them asks first': async ({
    a,
    b,
  }) => {
    await a.acquired(400);
    const [first, second] = [await b.waitsToRead(), await a.waitsToRead()];
    await sleep(500);
    equal((await a.recheck(second)).kind, 'granted');
    equal((await b.told('grant')).token, first.token);
  },
  'the last try of a reader joins those that read, unless a writer waits': async ({ a, b }) => {
    await a.reads(LONG_MS);
    equal((await b.tryOnceMore(b.reader())).kind, 'granted');
    await a.queued();
    equal((await b.tryOnceMore(b.reader())).kind, 'left');
  },
  'a renewal moves the end of its own lease only': async ({ a, b }) => {
    const short = await a.reads(500);
    const long = await b.reads(LONG_MS);
    const renewed = await b.renew(long.token, 0, 30_000);
    equal(renewed.kind, 'renewed');
    await sleep(600);
    equal((await b.renew(long.token, 0, 1_000)).kind, 'renewed');
    equal((await a.renew(short.token, 0)).kind, 'lost');
    equal((await a.release(short.token, 0)).kind, 'lost');
    ok((await a.queued()).remainingMs > 30_000); // no renewal has shortened it
  },
  'a key is read until the last reader ends, whoever came last': async ({ a, b }) => {
    const long = await a.reads(LONG_MS);
    await b.reads(400);
    const writer = await b.queued();
    ok(writer.remainingMs > LEASE_MS);
    await sleep(500);
    equal((await b.recheck(writer)).kind, 'queued');
    equal((await a.renew(long.token, 0)).kind, 'renewed');
  },
  'the lease of a dead reader ends although others read on': async ({ a, b }) => {
    await a.reads(400);
    const reader = await b.reads(LONG_MS);
    const writer = await a.queued();
    await sleep(500);
    equal((await b.release(reader.token, 0)).kind, 'released');
    equal((await a.told('grant')).token, writer.token);
  },
  'a repeated release changes nothing for the other readers': async ({ a, b }) => {
    const [first, second] = [await a.reads(LONG_MS), await b.reads(LONG_MS)];
    equal((await b.release(second.token, 0)).kind, 'released');
    equal((await b.release(second.token, 0)).kind, 'lost');
    deepEqual(await Promise.all(b.store.takeBack([b.of(second.token)])), [{ kind: 'left' }]);
    equal((await b.queued()).foreign, false);
    equal((await a.renew(first.token, 0)).kind, 'renewed');
  },
  'taking back the lease of one reader leaves it to the others, and that of the last hands it on':
    async ({ a, b }) => {
      const [first, second] = [await a.reads(LONG_MS), await b.reads(LONG_MS)];
      const writer = await a.queued();
      const takeBack = async (party: typeof a, token: string) =>
        deepEqual(await Promise.all(party.store.takeBack([party.of(token)])), [{ kind: 'left' }]);
      await takeBack(b, second.token);
      equal((await a.renew(first.token, 0)).kind, 'renewed');
      await takeBack(a, first.token);
      equal((await a.told('grant')).token, writer.token);
    },
  'revoke() takes a key from all readers and tells each, or from none if others read now': async ({
    a,
    b,
    key,
  }) => {
    const first = await a.reads();
    const valueOf = async (): Promise<string> =>
      (await a.store.inspector.inspect(key))?.value ?? '';
    const alone = await valueOf();
    const second = await b.reads();
    equal(await b.store.inspector.revoke(key, alone), undefined);
    const both = await valueOf();
    equal((await b.renew(second.token, 0, LONG_MS)).kind, 'renewed'); // another end, the same leases
    ok((await a.store.inspector.revoke(key, both)) !== undefined);
    equal((await a.told('revoked')).token, first.token);
    equal((await b.told('revoked')).token, second.token);
    equal((await a.renew(first.token, 0)).kind, 'lost');
    equal((await b.renew(second.token, 0)).kind, 'lost');
    equal((await b.ask(b.reader(), { nowait: true })).kind, 'busy');
  },
  'inspect() names all readers': async ({ a, b, key }) => {
    const tokens = [(await a.reads()).token, (await b.reads()).token];
    const record = await b.store.inspector.inspect(key, 9);
    deepEqual(
      record?.holders.map(({ token }) => token),
      tokens,
    );
  },
  'acquireTogether() takes nothing while one of the keys is read': async ({ a, b, key }) => {
    const keys = [key, `${key}:2`];
    const held = await a.at(`${key}:2`).reads();
    const replies = await b.askTogether(keys);
    deepEqual(
      replies.map(({ kind }) => kind),
      ['busy', 'busy'],
    );
    equal((await a.at(`${key}:2`).told('wanted')).token, held.token);
    await a.at(`${key}:2`).release(held.token, 0);
    equal(
      (await b.askTogether(keys)).every(({ kind }) => kind === 'granted'),
      true,
    );
  },
  'a reader that polls is let in with the others': async ({ a, b }) => {
    const held = await a.acquired();
    const polling = leaseToken(b.store.processId, 77, true, undefined, { mode: 'shared' });
    equal((await b.ask(polling)).kind, 'queued');
    const reader = await a.waitsToRead();
    await a.release(held.token, held.fence);
    equal((await a.told('grant')).token, reader.token);
    equal((await b.renew(polling, 0)).kind, 'renewed');
  },
  'readers that wait are let in however many dead ones are before or between them': async ({
    a,
    b,
  }) => {
    const held = await a.acquired(LONG_MS);
    await a.abandoned(1_500, 'shared');
    const first = await b.waitsToRead();
    await a.abandoned(400, 'shared');
    const second = await b.waitsToRead();
    await a.abandoned(400, 'shared');
    const third = await b.waitsToRead();
    const writer = await a.queued();
    equal((await a.release(held.token, held.fence)).kind, 'released');
    for (const { token } of [first, second, third]) equal((await b.told('grant')).token, token);
    equal((await a.told('head')).token, writer.token);
  },
  [`${CROWD} readers that wait are let in`]: async ({ a, b, key }) => {
    const held = await a.acquired(LONG_MS);
    const waiting: Queued[] = [];
    for (let i = 0; i < CROWD; i += 1) waiting.push(await b.waitsToRead());
    equal((await a.release(held.token, held.fence)).kind, 'released');
    for (const { token } of waiting.slice(0, 200)) equal((await b.told('grant')).token, token);
    equal((await b.recheck(waiting.at(-1) as Queued)).kind, 'granted');
    const { holders, waiters } = (await b.store.inspector.inspect(key, CROWD)) ?? {};
    deepEqual([holders?.length, waiters], [CROWD, 0]);
    const writer = await a.queued();
    for (const { token } of holders ?? []) await b.release(token, 0); // or it has ended meanwhile
    equal((await a.told('grant')).token, writer.token);
  },
};
