import { deepEqual, equal, ok } from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Granted } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { LEASE_MS, LONG_MS, type Party, type Rule } from './contract-party.js';

const slotsOf = (grants: readonly Pick<Granted, 'slot'>[]): number[] =>
  grants.map(({ slot = 0 }) => slot);

/** The next grants of these tokens, in any order of arrival. */
async function granted(party: Party, count: number): Promise<Map<string, number>> {
  const slots = new Map<string, number>();
  while (slots.size < count) {
    const { token, slot = 0 } = await party.told('grant');
    slots.set(token, slot);
  }
  return slots;
}

/** What a store owes those who ask for one of several permits, whose tokens end with `p<weight>/<permits>`. */
export const PERMIT_RULES: Readonly<Record<string, Rule>> = {
  'as many hold the key as there are permits, each with a slot of its own; the next waits for the first that is given back':
    async ({ a, b }) => {
      const held = [await a.admitted(3), await b.admitted(3), await a.admitted(3)];
      deepEqual(slotsOf(held), [0, 1, 2]);
      const waiting = await b.waitsForPermit(3);
      equal(waiting.foreign, false);
      equal((await b.ask(b.permit(3), { nowait: true })).kind, 'busy');
      const [, second] = held;
      equal((await b.release(second?.token as string, 0)).kind, 'released');
      const grant = await b.told('grant');
      deepEqual([grant.token, grant.slot], [waiting.token, 1]);
      ok(grant.acceptMs <= LEASE_MS);
    },
  'nobody who has a permit is asked for it': async ({ a, b, key }) => {
    await a.admitted(2);
    await a.admitted(2);
    await b.waitsForPermit(2);
    await b.queued();
    await a.at(`${key}:2`).acquired();
    await b.at(`${key}:2`).queued();
    await a.at(`${key}:2`).told('wanted');
    ok(!a.inbox.some((it) => it.kind === 'wanted' && it.key === key));
  },
  'a permit takes as many as it weighs, and none passes one that is too heavy now': async ({
    a,
    b,
  }) => {
    const [heavy, light] = [await a.admitted(4, 2), await a.admitted(4)];
    const first = await b.waitsForPermit(4, 3);
    const second = await a.waitsForPermit(4);
    equal((await a.ask(a.permit(4), { nowait: true })).kind, 'busy');
    await a.release(light.token, 0);
    equal((await b.recheck(first)).kind, 'queued');
    await a.release(heavy.token, 0);
    equal((await a.told('grant')).token, second.token);
  },
  'a heavy one that is given back lets in as many light ones as fit': async ({ a, b }) => {
    const heavy = await a.admitted(3, 3);
    const waiting = [
      await b.waitsForPermit(3),
      await b.waitsForPermit(3),
      await b.waitsForPermit(3),
      await b.waitsForPermit(3),
    ];
    await a.release(heavy.token, 0);
    const slots = await granted(b, 3);
    deepEqual(
      [...slots.keys()],
      waiting.slice(0, 3).map(({ token }) => token),
    );
    deepEqual([...slots.values()], [0, 1, 2]);
    equal((await b.recheck(waiting[3] as (typeof waiting)[0])).kind, 'queued');
  },
  'a heavy one gets in when enough have been given back': async ({ a, b }) => {
    const held = [await a.admitted(3), await a.admitted(3), await a.admitted(3)];
    const heavy = await b.waitsForPermit(3, 2);
    await a.release(held[0]?.token as string, 0);
    await a.release(held[2]?.token as string, 0);
    const grant = await b.told('grant');
    deepEqual([grant.token, grant.slot ?? 0], [heavy.token, 0]);
    equal((await a.ask(a.permit(3), { nowait: true })).kind, 'busy');
  },
  'each request is judged by its own number': async ({ a, b }) => {
    await a.admitted(2);
    await a.admitted(2);
    equal((await b.ask(b.permit(2), { nowait: true })).kind, 'busy');
    const more = await b.ask(b.permit(3), { nowait: true });
    deepEqual([more.kind, more.kind === 'granted' && more.slot], ['granted', 2]);
  },
  'who waits learns that a holder counts another number': async ({ a, b }) => {
    const alone = await a.admitted(3, 3);
    equal((await b.waitsForPermit(2)).permits, 3);
    equal((await b.waitsForPermit(3)).permits, undefined);
    await a.release(alone.token, 0);
    await granted(b, 2);
    const behind = await a.waitsForPermit(3, 3); // beside one that says 2, and one that says 3
    deepEqual([behind.permits, behind.head], [2, undefined]);
    const last = await a.waitsForPermit(4);
    deepEqual([typeof last.permits, last.head], ['number', behind.token]);
  },
  'a permit is held by its token: a repeated release gives back nothing more': async ({ a, b }) => {
    const [first, second] = [await a.admitted(2), await b.admitted(2)];
    equal((await b.release(second.token, 0)).kind, 'released');
    equal((await b.release(second.token, 0)).kind, 'lost');
    deepEqual(await Promise.all(b.store.takeBack([b.of(second.token)])), [{ kind: 'left' }]);
    await b.admitted(2);
    equal((await b.ask(b.permit(2), { nowait: true })).kind, 'busy');
    equal((await a.renew(first.token, 0, LEASE_MS, 0)).kind, 'renewed');
  },
  'a permit that asks again has the same lease and slot': async ({ a, b }) => {
    await a.admitted(3, 1, LONG_MS);
    const second = await b.admitted(3);
    const again = await b.ask(second.token);
    deepEqual([again.kind, again.kind === 'granted' && again.slot], ['granted', 1]);
    equal((await b.release(second.token, 0)).kind, 'released');
    equal((await b.renew(second.token, 0, LEASE_MS, 0)).kind, 'lost');
  },
  'the last holder keeps its slot, and may renew, ask again and release': async ({ a, b }) => {
    const [first, second] = [await a.admitted(2), await b.admitted(2)];
    await a.release(first.token, 0);
    equal((await b.renew(second.token, 0, LONG_MS, 0)).kind, 'renewed');
    const again = await b.ask(second.token);
    deepEqual([again.kind, again.kind === 'granted' && again.slot], ['granted', 1]);
    deepEqual(slotsOf([await a.admitted(2)]), [0]);
    equal((await b.ask(b.token(), { nowait: true })).kind, 'busy');
    const waiting = await a.waitsForPermit(2);
    equal((await b.release(second.token, 0)).kind, 'released');
    const grant = await a.told('grant');
    deepEqual([grant.token, grant.slot], [waiting.token, 1]);
  },
  'the release of the last holder, whose slot is not 0, frees the key': async ({ a, b, key }) => {
    const [first, second] = [await a.admitted(2), await b.admitted(2)];
    await a.release(first.token, 0);
    equal((await b.release(second.token, 0)).kind, 'released');
    equal(await a.store.inspector.inspect(key), undefined);
    await b.acquired();
  },
  'the permit of a dead process comes free with its own lease, and who waits looks then': async ({
    a,
    b,
  }) => {
    await a.admitted(2, 1, 500);
    const other = await a.admitted(2, 1, LONG_MS);
    const waiting = await b.waitsForPermit(2);
    ok(waiting.remainingMs <= 500);
    equal((await a.renew(other.token, 0, LONG_MS, 0)).kind, 'renewed');
    await sleep(550);
    const reply = await b.recheck(waiting);
    deepEqual([reply.kind, reply.kind === 'granted' && (reply.slot ?? 0)], ['granted', 0]);
  },
  'whoever finds room that a dead process has left lets in who is first': async ({ a, b }) => {
    await a.admitted(2, 1, 400);
    await a.admitted(2, 1, LONG_MS);
    const first = await b.waitsForPermit(2);
    await sleep(450);
    equal((await a.ask(a.permit(2))).kind, 'queued');
    equal((await b.told('grant')).token, first.token);
  },
  'a single try does so as well': async ({ a, b }) => {
    await a.admitted(2, 1, 400);
    await a.admitted(2, 1, LONG_MS);
    const first = await b.waitsForPermit(2);
    await sleep(450);
    equal((await a.ask(a.permit(2), { nowait: true })).kind, 'busy');
    equal((await b.told('grant')).token, first.token);
  },
  'an exclusive holder waits for all permits, and keeps later ones out': async ({ a, b }) => {
    const held = [await a.admitted(3, 1, LONG_MS), await a.admitted(3)];
    const alone = await b.queued();
    ok(alone.remainingMs > LEASE_MS);
    const later = await b.waitsForPermit(3);
    for (const { token } of held) await a.release(token, 0);
    const grant = await b.told('grant');
    equal(grant.token, alone.token);
    equal((await b.recheck(later)).kind, 'queued');
  },
  'after an exclusive holder, as many permits as fit are let in': async ({ a, b }) => {
    const held = await a.acquired();
    const waiting = [
      await b.waitsForPermit(2),
      await b.waitsForPermit(2),
      await b.waitsForPermit(2),
    ];
    await a.release(held.token, held.fence);
    const slots = await granted(b, 2);
    deepEqual(
      [...slots.entries()],
      [
        [waiting[0]?.token, 0],
        [waiting[1]?.token, 1],
      ],
    );
  },
  'an exclusive waiter that goes lets in the permits behind it': async ({ a, b }) => {
    await a.admitted(3, 1, LONG_MS);
    for (const ends of ['leave', 'tryOnceMore'] as const) {
      const alone = await b.queued();
      const permit = await a.waitsForPermit(3);
      equal((await b[ends](alone.token)).kind, 'left');
      equal((await a.told('grant')).token, permit.token);
    }
  },
  'readers and permits never hold the key together': async ({ a, b }) => {
    const held = await a.admitted(3);
    const reader = await b.waitsToRead();
    await a.release(held.token, 0);
    equal((await b.told('grant')).token, reader.token);
    const permit = await a.waitsForPermit(3);
    await b.release(reader.token, 0);
    equal((await a.told('grant')).token, permit.token);
  },
  'a permit given back and asked for again goes behind those that wait, or stays if nobody does':
    async ({ a, b }) => {
      const [first, second] = [await a.admitted(2), await a.admitted(2)];
      const waiting = await b.waitsForPermit(2);
      const again = await a.requeue(first.token, 0, a.permit(2));
      equal(again.kind, 'queued');
      equal((await b.told('grant')).token, waiting.token);
      await b.release(waiting.token, 0);
      equal((await a.told('grant')).token, again.kind === 'queued' && again.token);
      const kept = await a.requeue(second.token, 0, a.permit(2));
      deepEqual([kept.kind, kept.kind === 'granted' && kept.slot], ['granted', 1]);
    },
  'the last try of a permit takes it if there is one, and lets in who is first': async ({
    a,
    b,
    key,
  }) => {
    const held = await a.admitted(1, 1, LONG_MS);
    const waiting = await b.waitsForPermit(1);
    equal((await b.tryOnceMore(waiting.token)).kind, 'left');
    await a.release(held.token, 0);
    equal((await b.tryOnceMore(b.permit(1))).kind, 'granted');
    await a.at(`${key}:2`).admitted(2, 1, 400);
    await a.at(`${key}:2`).admitted(2, 1, LONG_MS);
    const first = await a.at(`${key}:2`).waitsForPermit(2);
    await sleep(450);
    equal((await b.at(`${key}:2`).tryOnceMore(b.permit(2))).kind, 'left');
    equal((await a.at(`${key}:2`).told('grant')).token, first.token);
  },
  'a renewal moves the end of its own permit only': async ({ a, b }) => {
    const [short, long] = [await a.admitted(2, 1, 400), await b.admitted(2, 1, 400)];
    equal((await b.renew(long.token, 0, LONG_MS, 0)).kind, 'renewed');
    await sleep(450);
    equal((await b.renew(long.token, 0, 1_000, 0)).kind, 'renewed');
    equal((await a.renew(short.token, 0, LEASE_MS, 0)).kind, 'lost');
    ok((await a.queued()).remainingMs > 30_000);
  },
  'taking back what was left of a permit lets in who is first': async ({ a, b }) => {
    const [first] = [await a.admitted(2), await a.admitted(2)];
    const waiting = await b.waitsForPermit(2);
    deepEqual(await Promise.all(a.store.takeBack([a.of(first.token)])), [{ kind: 'left' }]);
    equal((await b.told('grant')).token, waiting.token);
  },
  'dead waiters keep no permit from the living': async ({ a, b }) => {
    const held = await a.admitted(1);
    for (let i = 0; i < 3; i += 1)
      equal((await a.ask(`${'0'.repeat(31)}${i}:1p1/1`)).kind, 'queued');
    const waiting = await b.waitsForPermit(1);
    await a.release(held.token, 0);
    equal((await b.told('grant')).token, waiting.token);
  },
  'a permit that polls is let in in its turn': async ({ a, b }) => {
    const held = await a.admitted(1);
    const polling = `${b.store.processId}:077p1/1`;
    equal((await b.ask(polling)).kind, 'queued');
    await a.release(held.token, 0);
    equal((await b.renew(polling, 0, LEASE_MS, 0)).kind, 'renewed');
  },
  'revoke() takes the key from all permits and tells each': async ({ a, b, key }) => {
    const held = [await a.admitted(2), await b.admitted(2)];
    const record = await a.store.inspector.inspect(key, 9);
    deepEqual(
      record?.holders.map(({ token }) => token),
      held.map(({ token }) => token),
    );
    equal(await a.store.inspector.revoke(key, held[0]?.token), undefined);
    ok((await b.store.inspector.revoke(key, record?.value)) !== undefined);
    equal((await a.told('revoked')).token, held[0]?.token);
    equal((await b.told('revoked')).token, held[1]?.token);
    equal((await a.renew(held[0]?.token as string, 0, LEASE_MS, 0)).kind, 'lost');
  },
  '300 permits are held at once, and each is given back': async ({ a, b, key }) => {
    const tokens: string[] = [];
    for (let i = 0; i < 300; i += 1) {
      const grant = await a.admitted(300, 1, LONG_MS);
      equal(grant.slot ?? 0, i);
      tokens.push(grant.token);
    }
    const waiting = await b.waitsForPermit(300);
    equal((await a.release(tokens[120] as string, 0)).kind, 'released');
    const grant = await b.told('grant');
    deepEqual([grant.token, grant.slot], [waiting.token, 120]);
    equal((await b.renew(waiting.token, 0, LONG_MS, 0)).kind, 'renewed');
    for (const token of tokens.filter((_, i) => i !== 120)) await a.release(token, 0);
    equal((await b.release(waiting.token, 0)).kind, 'released');
    equal(await b.store.inspector.inspect(key), undefined);
  },
};
