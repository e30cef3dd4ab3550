import type { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RETRY_MS, seconds } from '../scale.js';
import { GaveUp, type Lock, lockStage, type Stage, type StageTools } from './stage.js';

/** Stages 5 to 13: a key in Redis, taken and removed with commands until a script does it. */
export const WITH_COMMANDS: readonly Stage[] = [
  lockStage({
    id: '5',
    name: 'GET then SET',
    lesson: 'Looking and taking must be one step.',
    breaks:
      'Two callers pass the look together; a waiter enters while the key exists, not when it is gone.',
    traits: ['lock', 'redis', 'several commands'],
    lock: ({ redis }) => ({
      async acquire(key) {
        // Breaks here: somebody else has looked as well, and has seen nothing.
        if ((await redis.get(key)) === null) return void (await redis.set(key, 'locked'));
        // Breaks here: the condition is the wrong way round.
        do await sleep(RETRY_MS);
        while ((await redis.get(key)) === null);
      },
      release: (key) => redis.del(key),
    }),
  }),
  lockStage({
    id: '6',
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
    id: '7',
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
    id: '8',
    name: 'expiry as value, then DEL',
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
    id: '9',
    name: 'expiry as value, then SET',
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
    id: '10',
    name: 'GETSET, expired twice',
    lesson: 'GETSET tells which of two waiters was first: the one that gets the dead value back.',
    breaks:
      'It needs synchronised clocks, knows no owner, and a reply of nil crashes a naive int().',
    traits: ['lock', 'redis', 'expiry', 'client clock'],
    lock: ({ redis }) => ({
      async acquire(key) {
        for (;;) {
          let end = endInValue();
          if ((await redis.setnx(key, end)) === 1) return end;
          // Breaks here: the lock may be gone by now, and the reply nil.
          if (Date.now() > int(await redis.get(key))) {
            end = endInValue();
            // The loser still overwrites the winner's time.
            if (Date.now() > int(await redis.getset(key, end))) return end;
          }
          await sleep(RETRY_MS);
        }
      },
      async release(key, end) {
        // Breaks here: this looks at its own clock, and never at the key.
        if (Date.now() < end) await redis.del(key);
      },
    }),
  }),
  lockStage({
    id: '10b',
    name: 'GETSET, same value as read',
    lesson:
      'The value that GETSET gives back must be the one that was read: no nil, no second clock.',
    breaks: 'A loser overwrites the winner’s time, and its expiry with it; it knows no owner.',
    traits: ['lock', 'redis', 'expiry', 'client clock', 'several commands'],
    lock: ({ redis }) => ({
      async acquire(key) {
        while (!(await takeOrReplace(redis, key))) await sleep(RETRY_MS);
        await redis.pexpire(key, LEASE_MS);
      },
      // Breaks here: nobody asks whose lock it is by now.
      release: (key) => redis.del(key),
    }),
  }),
  lockStage({
    id: '11',
    name: 'SET NX EX, GET then DEL',
    lesson: 'A lock has an owner, and taking it with an expiry is one command.',
    breaks:
      'Who waited has no expiry and no owner, so it can never release. Between GET and DEL the lock can expire.',
    traits: ['lock', 'redis', 'expiry'],
    lock: ({ redis }) => ({
      async acquire(key) {
        const owner = randomUUID();
        if ((await redis.set(key, owner, 'PX', LEASE_MS, 'NX')) === 'OK') return owner;
        // Breaks here: a later try sets neither the expiry nor the owner.
        while ((await redis.setnx(key, 1)) === 0) await sleep(RETRY_MS);
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
    id: '12',
    name: 'WATCH, MULTI, EXEC',
    lesson: 'An optimistic transaction deletes only what has not changed since the look.',
    breaks:
      'Taking is SETNX and EXPIRE still, mended by whoever waits; the work outlives the expiry.',
    traits: ['lock', 'redis', 'expiry', 'several commands'],
    lock: ({ redis, withConnection }) => ({
      async acquire(key) {
        const owner = randomUUID();
        const end = Date.now() + ACQUIRE_MS;
        while ((await redis.setnx(key, owner)) === 0) {
          // The repair: a lock without an end is that of a holder that died before its EXPIRE.
          if ((await redis.ttl(key)) === -1) await redis.pexpire(key, LEASE_MS);
          if (Date.now() > end) throw new GaveUp('acquire_time has passed');
          await sleep(RETRY_MS);
        }
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
    id: '13',
    name: 'Lua release',
    lesson: 'A script compares and deletes in one step.',
    breaks: 'Right until the work outlives the expiry.',
    traits: ['lock', 'redis', 'expiry'],
    lock: withScript,
  }),
  lockStage({
    id: '13b',
    name: 'Lua release before COMMIT',
    lesson:
      'Never two holders, and still wrong: a lock must outlast the transaction that it guards.',
    breaks: 'The next holder reads the old stock between the release and the COMMIT.',
    traits: ['lock', 'redis', 'expiry'],
    releasedBeforeCommit: true, // Breaks here.
    lock: withScript,
  }),
];

/** How long a waiter of stage 12 waits, which its article leaves to the caller: as long as one of ours. */
const ACQUIRE_MS = LEASE_MS * 4;

/** Deletes the key of its owner. */
export const RELEASE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0`;

/** An owner as value, an expiry, and a release by script. */
function withScript({ redis }: StageTools): Lock<string> {
  return {
    async acquire(key) {
      const owner = randomUUID();
      // Breaks here: to choose the number, one has to know how long the work will take.
      while ((await redis.set(key, owner, 'PX', LEASE_MS, 'NX')) === null) await sleep(RETRY_MS);
      return owner;
    },
    release: (key, owner) => redis.eval(RELEASE, 1, key, owner),
  };
}

/** Takes a free lock, or replaces an expired one unless another waiter was first. */
async function takeOrReplace(redis: Redis, key: string): Promise<boolean> {
  if ((await redis.setnx(key, endInValue())) === 1) return true;
  const read = await redis.get(key);
  if (read === null || Number(read) >= Date.now()) return false;
  // The loser still overwrites the winner's time.
  return (await redis.getset(key, endInValue())) === read;
}

/** The value of a lock with GETSET: a second later than it lasts. */
function endInValue(): number {
  return Date.now() + LEASE_MS + seconds(1);
}

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
