/** A process that receives replies but no messages: it still gets its turns, and reports the failure. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { LockObserver } from '../support/lock-observer.js';
import { type OpenedLocks, openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const server = useRedisServer();
const observer = new LockObserver(server);
/** How long a polling process delays the others if it dies when its turn comes. */
const LOOK_LEASE_MS = 1_000;

let users = 0;

/** Opens a lock service with its own Redis user, whose subscription can be revoked. */
async function openDeaf() {
  const user = `user-${++users}`;
  const { admin } = server;
  await admin.call('ACL', 'SETUSER', user, 'on', '>secret', '~*', '&*', '+@all');
  const locks = await openLocks(server.url.replace('//', `//${user}:secret@`));
  return {
    ...locks,
    async cut(): Promise<void> {
      await admin.call('ACL', 'SETUSER', user, '-subscribe');
      await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub', 'USER', user);
      await eventually(() => expect(locks.store.listensFor('')).toBe(false));
    },
    async heal(): Promise<void> {
      await admin.call('ACL', 'SETUSER', user, '+subscribe');
    },
  };
}

/** Returns how many holds each service had, and the longest time between two of them. */
async function race(all: readonly OpenedLocks[], forMs: number, holdMs: number) {
  const key = uniqueKey();
  const until = performance.now() + forMs;
  let inside = 0;
  return Promise.all(
    all.map(async ({ engine }) => {
      let holds = 0;
      let longestMs = 0;
      let last = performance.now();
      const caller = async (): Promise<void> => {
        while (performance.now() < until) {
          await engine.withLock(key, { waitMs: 60_000 }, async () => {
            expect(++inside).toBe(1);
            holds++;
            longestMs = Math.max(longestMs, performance.now() - last);
            await sleep(holdMs);
            last = performance.now();
            inside--;
          });
        }
      };
      await Promise.all([caller(), caller()]);
      return { holds, longestMs };
    }),
  );
}

describe('a process that no message reaches', () => {
  fault(
    'inbox of one of three processes refused for good, its commands healthy',
    'it gets at least a third of its fair share, and nobody waits for long [R3]',
    async (measure) => {
      const deaf = await openDeaf();
      const rivals = [await openLocks(server.url), await openLocks(server.url)];
      await deaf.cut();
      const [own, ...others] = await race([deaf, ...rivals], 6_000, 10);
      expect(deaf.store.listensFor('')).toBe(false);
      const total = own!.holds + others.reduce((sum, { holds }) => sum + holds, 0);
      measure('holds', own!.holds, `of ${total}`);
      measure('longest wait', Math.max(own!.longestMs, ...others.map((it) => it.longestMs)), 'ms');
      expect(own!.holds).toBeGreaterThan(total / 9);
      for (const { holds } of others) expect(holds).toBeGreaterThan(total / 9);
      for (const { longestMs } of [own!, ...others]) expect(longestMs).toBeLessThan(3_000);
    },
  );

  it('dies at its turn: the others wait for a second, once [R3]', async () => {
    const [deaf, holder, next] = [
      await openDeaf(),
      await openLocks(server.url),
      await openLocks(server.url),
    ];
    await deaf.cut();
    const key = uniqueKey();
    const held = await holder.engine.acquire(key);
    const lost = deaf.engine.acquire(key).catch(() => {});
    await observer.waiting(key, 1);
    const waiting = next.engine.acquire(key);
    await observer.waiting(key, 2);
    deaf.store.recheck = () => new Promise(() => {}); // it never rechecks again
    deaf.store.leave = () => new Promise(() => {});
    await sleep(200); // commands in flight have arrived

    const releasedAt = performance.now();
    await held.release();
    const lock = await waiting;
    expect(performance.now() - releasedAt).toBeLessThan(2 * LOOK_LEASE_MS);
    await lock.release();
    const again = performance.now();
    await (await next.engine.acquire(key)).release();
    expect(performance.now() - again).toBeLessThan(0.8 * LOOK_LEASE_MS);
    void lost;
  });

  it('hands its lease on although no message can tell it that the key is wanted', async () => {
    const [deaf, other] = [await openDeaf(), await openLocks(server.url)];
    await deaf.cut();
    await eventually(() => expect(deaf.events.map(({ type }) => type)).toContain('inbox-lost'));
    const key = uniqueKey();
    let isOver = false;
    const busy = Promise.all(
      [1, 2].map(async () => {
        while (!isOver) await deaf.engine.withLock(key, { waitMs: 60_000 }, () => sleep(5));
      }),
    );
    await sleep(500); // its calls follow each other locally, without a command
    const askedAt = performance.now();
    const lock = await other.engine.acquire(key);
    expect(performance.now() - askedAt).toBeLessThan(2_000); // its lease is next renewed after 10 s
    isOver = true;
    await lock.release();
    await busy;
  });

  it('reports it once, and when it is over; ping() fails meanwhile', async () => {
    const deaf = await openDeaf();
    await expect(deaf.engine.ping()).resolves.toBeGreaterThan(0);
    await deaf.cut();
    const told = () => deaf.events.filter(({ type }) => type.startsWith('inbox-'));
    await eventually(() => expect(told()).toHaveLength(1));
    expect(told()).toMatchObject([{ type: 'inbox-lost', cause: { name: 'LockStoreError' } }]);
    const refusal: unknown = await deaf.engine.ping().catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(LockStoreError);
    expect((refusal as Error).message).toMatch(
      /^No message has arrived from the lock store for \d+ ms: the subscription is lost: /,
    );
    await eventually(() =>
      expect(told().at(-1)).toMatchObject({ cause: { message: /NOPERM|permission/i } }),
    ).catch(() => {});
    await (await deaf.engine.acquire(uniqueKey())).release();
    await deaf.heal();
    await eventually(() => expect(told().at(-1)).toMatchObject({ type: 'inbox-back' }));
    await expect(deaf.engine.ping()).resolves.toBeGreaterThan(0);
    expect(told().length).toBeLessThanOrEqual(3); // once for each reason
    expect(deaf.events.map(({ type }) => type)).not.toContain('store-lost');
  });
});
