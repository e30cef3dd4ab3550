import type { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RETRY_MS, seconds } from '../scale.js';
import { type Lock, lockStage, type Stage, type StageTools } from './stage.js';

/** Stages 5 to 13: a key in Redis, taken and removed with commands until a script does it. */
export const WITH_COMMANDS: readonly Stage[] = [
  lockStage({
    number: 5,
    name: 'GET then SET',
    lesson: 'Looking and taking must be one step.',
    breaks: 'Two callers pass the look together.',
    traits: ['lock', 'redis', 'several commands'],
    lock: ({ redis }) => ({
      async acquire(key) {
        while ((await redis.get(key)) !== null) await sleep(RETRY_MS);
        // Breaks here: somebody else has looked as well, and has seen nothing.
        await redis.set(key, 'locked');
      },
      release: (key) => redis.del(key),
    }),
  }),
  lockStage({
    number: 6,
    name: 'SETNX, DEL',
    lesson: 'SETNX looks and takes in one step.',
    breaks: 'A holder that dies never sends DEL: locked for ever.',
    traits: ['lock', 'redis'],
    lock: ({ redis }) => ({
      async acquire(key) {
        while ((await redis.setnx(key, 'locked')) === 0) await sleep(RETRY_MS);
      },
      // Breaks here, if this line is never reached.
      release: (key) => redis.del(key),
    }),
  }),
  lockStage({
    number: 7,
    name: 'SETNX then EXPIRE',
    lesson: 'A lock has to end on its own when its holder cannot end it.',
    breaks: 'Taking and expiring are two commands: who dies between them locks for ever.',
    traits: ['lock', 'redis', 'expiry', 'several commands'],
    lock: ({ redis }) => ({
      async acquire(key) {
        while ((await redis.setnx(key, 'locked')) === 0) await sleep(RETRY_MS);
        // Breaks here: a lock without an end, until the next line has run.
        await redis.pexpire(key, LEASE_MS);
      },
      release: (key) => redis.del(key),
    }),
  }),
  lockStage({
    number: 8,
    name: 'expiry in the value, DEL when past',
    lesson: 'With the expiry time as value, taking and expiring are one command.',
    breaks: 'Two waiters see the same dead lock; the second one deletes the lock of the first.',
    traits: ['lock', 'redis', 'expiry', 'client clock'],
    lock: withExpiryInValue(async (redis, key) => {
      // Breaks here: nobody asks whose lock it is by now.
      await redis.del(key);
      return (await redis.setnx(key, Date.now() + LEASE_MS)) === 1;
    }),
  }),
  lockStage({
    number: 9,
    name: 'expiry in the value, SET when past',
    lesson: 'Overwriting instead of deleting saves a command and changes nothing.',
    breaks: 'Two waiters see the same dead lock, and both overwrite it.',
    traits: ['lock', 'redis', 'expiry', 'client clock'],
    lock: withExpiryInValue(async (redis, key) => {
      // Breaks here: SET succeeds for everybody.
      await redis.set(key, Date.now() + LEASE_MS);
      return true;
    }),
  }),
  lockStage({
    number: 10,
    name: 'GETSET',
    lesson: 'GETSET tells which of two waiters was first: the one that gets the dead value back.',
    breaks:
      'It needs synchronised clocks, knows no owner, and a reply of nil crashes a naive int().',
    traits: ['lock', 'redis', 'expiry', 'client clock'],
    lock({ redis }) {
      const expiry = (): number => Date.now() + LEASE_MS + seconds(1);
      return {
        async acquire(key) {
          while ((await redis.setnx(key, expiry())) === 0) {
            // Breaks here: the lock may be gone by now, and the reply nil.
            if (int(await redis.get(key)) < Date.now()) {
              // The loser still overwrites the expiry of the winner.
              if (int(await redis.getset(key, expiry())) < Date.now()) return;
            }
            await sleep(RETRY_MS);
          }
        },
        // Breaks here: this checks the time, but not whose lock it is.
        async release(key) {
          if (Date.now() < Number(await redis.get(key))) await redis.del(key);
        },
      };
    },
  }),
  lockStage({
    number: 11,
    name: 'SET NX EX, GET then DEL',
    lesson: 'A lock has an owner, and taking it with an expiry is one command.',
    breaks: 'Between GET and DEL the lock can expire; the fallback path forgets the expiry.',
    traits: ['lock', 'redis', 'expiry'],
    lock: ({ redis }) => ({
      async acquire(key) {
        const owner = randomUUID();
        if ((await redis.set(key, owner, 'PX', LEASE_MS, 'NX')) === 'OK') return owner;
        // Breaks here: the path of a waiter sets no expiry.
        while ((await redis.setnx(key, owner)) === 0) await sleep(RETRY_MS);
        return owner;
      },
      async release(key, owner) {
        if ((await redis.get(key)) !== owner) return;
        // Breaks here: it was mine when I looked.
        await redis.del(key);
      },
    }),
  }),
  lockStage({
    number: 12,
    name: 'WATCH, MULTI, EXEC',
    lesson: 'An optimistic transaction deletes only what has not changed since the look.',
    breaks: 'Giving back is right now; taking is SETNX and EXPIRE still.',
    traits: ['lock', 'redis', 'expiry', 'several commands'],
    lock: ({ redis, withConnection }) => ({
      async acquire(key) {
        const owner = randomUUID();
        while ((await redis.setnx(key, owner)) === 0) await sleep(RETRY_MS);
        // Breaks here: a lock without an end, until the next line has run.
        await redis.pexpire(key, LEASE_MS);
        return owner;
      },
      release: (key, owner) =>
        withConnection(async (own) => {
          await own.watch(key);
          if ((await own.get(key)) !== owner) return own.unwatch();
          await own.multi({ pipeline: false });
          await own.del(key);
          return own.exec();
        }),
    }),
  }),
  lockStage({
    number: 13,
    name: 'Lua release',
    lesson: 'A script compares and deletes in one step.',
    breaks: 'Right until the work outlives the expiry.',
    traits: ['lock', 'redis', 'expiry'],
    lock: ({ redis }) => ({
      async acquire(key) {
        const owner = randomUUID();
        // Breaks here: to choose the number, one has to know how long the work will take.
        while ((await redis.set(key, owner, 'PX', LEASE_MS, 'NX')) === null) await sleep(RETRY_MS);
        return owner;
      },
      release: (key, owner) => redis.eval(RELEASE, 1, key, owner),
    }),
  }),
];

/** Deletes the key of its owner. */
export const RELEASE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0`;

/** A lock whose value is its end. @param takeDead takes one that is past it, and returns whether it was taken */
function withExpiryInValue(takeDead: (redis: Redis, key: string) => Promise<boolean>) {
  return ({ redis }: StageTools): Lock<void> => ({
    async acquire(key) {
      for (;;) {
        if ((await redis.setnx(key, Date.now() + LEASE_MS)) === 1) return;
        const expiry = await redis.get(key);
        const isDead = expiry !== null && Number(expiry) < Date.now();
        if (isDead && (await takeDead(redis, key))) return;
        await sleep(RETRY_MS);
      }
    },
    release: (key) => redis.del(key),
  });
}

/** Like int() of Python, which the article uses: it throws at nil. */
function int(reply: string | null): number {
  if (reply === null) throw new TypeError('int() argument must be a string, not nil');
  return Number.parseInt(reply, 10);
}
