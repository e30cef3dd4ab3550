/**
 * A Nest application that holds locks. `LockProcess` drives it over IPC, and can pause, block and kill it. It is plain
 * JavaScript, so that it runs the built library as an application does.
 *
 * It executes the commands of `LockWorkerCommands` and sends the events of `LockWorkerEvent`.
 *
 * @typedef {import('../support/lock-process.js').LockWorkerCommands} LockWorkerCommands
 * @typedef {import('../support/lock-process.js').LockWorkerEvent} LockWorkerEvent
 * @typedef {import('../support/lock-process.js').HoldRecord} HoldRecord
 * @typedef {import('nestjs-locked').Lock} Lock
 */
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { LockError, LockService, RedisLockModule } from 'nestjs-locked';
import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises';

/** @type {import('@nestjs/common').INestApplicationContext | undefined} */
let application;
/** @type {LockService} */
let locks;
/** @type {Redis | undefined} */
let redis;
/** @type {Map<number, { lock: Lock, end: () => void }>} */
const holds = new Map();

/** @type {LockWorkerCommands} */
const commands = {
  async open({ redisUrl, ...options }) {
    await commands.close();
    application = await NestFactory.createApplicationContext(
      RedisLockModule.forRoot({ ...options, connection: redisUrl }),
      { logger: false, abortOnError: false },
    );
    locks = application.get(LockService);
    redis = new Redis(redisUrl, { maxRetriesPerRequest: null });
    redis.on('error', () => {}); // tests stop the server
  },

  async close() {
    for (const { end } of holds.values()) end();
    await application?.close();
    redis?.disconnect();
    application = redis = undefined;
    return locks && residue(locks);
  },

  async hold({ attempt, key, ms, options }) {
    const asked = now();
    const lock = await locks.acquire(key, options);
    const entered = { attempt, key, asked, entered: now(), token: lock.fencingToken };
    const loss = watch(lock, (lost) => send({ event: 'lost', attempt, lost }));
    const told = new Promise((end) => holds.set(attempt, { lock, end: () => end(undefined) }));
    send({ event: 'entered', entered });

    await (ms === undefined ? told : Promise.race([told, sleep(ms)]));
    const left = now();
    const released = await lock.release();
    holds.delete(attempt);
    return { ...entered, left, lost: loss(), released };
  },

  async release(attempt) {
    holdOf(attempt).end();
  },

  detach(attempt, forMs) {
    return holdOf(attempt).lock.detach({ forMs });
  },

  async adopt({ attempt, text, ms }) {
    const asked = now();
    return locks.adopt(text, async (lock) => {
      const { key, fencingToken: token } = lock;
      const entered = { attempt, key, asked, entered: now(), token };
      const loss = watch(lock);
      await sleep(ms);
      return { ...entered, left: now(), lost: loss(), released: true };
    });
  },

  async probe(attempt) {
    const { lock } = holdOf(attempt);
    const { signal } = lock;
    return {
      at: now(),
      remainingMs: lock.remainingMs(),
      isHeld: lock.isHeld,
      assertHeld: assertHeld(lock),
      aborted: signal.aborted,
    };
  },

  async wait(ms) {
    await sleep(ms);
    return now();
  },

  async race({ key, counter, callers, times, pauseMs, register }) {
    /** @type {HoldRecord[]} */
    const records = [];
    const caller = async () => {
      for (let i = 0; i < times; i += 1) {
        const asked = now();
        const record = await locks.withLock(key, async (lock) => {
          const entered = now();
          const loss = watch(lock);
          if (register) await redis?.rpush(register, `enter nest ${process.pid}`);
          const value = Number(await redis?.get(counter));
          await sleep(pauseMs);
          await redis?.set(counter, value + 1);
          if (register) await redis?.rpush(register, `leave nest ${process.pid}`);
          return { key, asked, entered, token: lock.fencingToken, left: now(), lost: loss() };
        });
        records.push({ ...record, attempt: records.length, released: true });
      }
    };
    await Promise.all(Array.from({ length: callers }, caller));
    return records;
  },

  async block({ ms, askAtOnce }) {
    /** @type {import('../support/lock-process.js').Heard[]} */
    const heard = [];
    /** @param {string} from */
    const askAll = (from) => {
      const at = now();
      for (const [attempt, { lock }] of holds) {
        heard.push({ from, at, attempt, assertHeld: assertHeld(lock) });
      }
    };
    for (const { lock } of holds.values()) {
      lock.signal.addEventListener('abort', () => askAll('signal'), { once: true });
    }

    // The first code that can run after the block checks whether the locks are still held.
    const others = [
      sleep(1).then(() => askAll('timer')),
      sleep(ms).then(() => askAll('timer due while blocked')),
      immediate().then(() => askAll('immediate')),
      Promise.resolve(redis?.ping()).then(() => askAll('answer of Redis')),
    ];
    const from = now();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms); // blocks without using the processor
    const to = now();
    if (askAtOnce) askAll('the blocking code');
    await Promise.all(others);
    return { from, to, heard };
  },

  async residue() {
    return residue(locks);
  },

  async memory() {
    globalThis.gc?.();
    return process.memoryUsage().heapUsed;
  },
};

process.on('message', async (/** @type {any} */ { id, command, args }) => {
  try {
    const result = await /** @type {any} */ (commands)[command](...args);
    process.send?.({ id, result });
  } catch (error) {
    process.send?.({ id, error: describe(error) });
  }
});
// The parent has ended, or has disconnected to end this process.
process.on('disconnect', () => process.exit());

/** @param {LockWorkerEvent} event */
function send(event) {
  process.send?.(event);
}

/**
 * The current time in milliseconds. `hrtime` reads CLOCK_MONOTONIC, which counts from the start of the machine, so
 * times of different processes on one machine can be compared.
 */
function now() {
  return Number(process.hrtime.bigint()) / 1e6;
}

/**
 * @param {LockService} service
 * @returns {import('../support/lock-process.js').Residue}
 */
function residue(service) {
  return Reflect.get(service, Symbol.for('nestjs-locked/LockRunner')).residue;
}

/** @param {number} attempt */
function holdOf(attempt) {
  const hold = holds.get(attempt);
  if (hold === undefined) throw new Error(`attempt ${attempt} holds no lock`);
  return hold;
}

/**
 * Records when and why the lock is lost. Calling the returned function also detects a deadline that has just passed.
 * @param {Lock} lock
 * @param {(lost: import('../support/lock-process.js').Loss) => void} [onLost]
 */
function watch(lock, onLost) {
  const { signal } = lock;
  /** @type {import('../support/lock-process.js').Loss | undefined} */
  let lost;
  const note = () => {
    lost = { at: now(), reason: signal.reason.reason, code: signal.reason.code };
    onLost?.(lost);
  };
  if (signal.aborted) note();
  else signal.addEventListener('abort', note, { once: true });
  return () => {
    void lock.signal; // reading it makes the lock check its deadline
    return lost;
  };
}

/** @param {Lock} lock */
function assertHeld(lock) {
  try {
    lock.assertHeld();
    return 'ok';
  } catch (error) {
    return describe(error).code ?? 'other';
  }
}

/** @param {unknown} error */
function describe(error) {
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { message, ...(error instanceof LockError && { code: error.code }) };
}
