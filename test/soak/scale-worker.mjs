/**
 * A process that does one of the tasks below with the built library, and prints what it measured as one line of JSON,
 * the last one.
 * Arguments: the task, the URL of Redis, and a number.
 */
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { LockNotAcquiredError, LockService, LockStoreError, RedisLockModule } from 'nestjs-locked';
import { LockTestingModule } from 'nestjs-locked/testing';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

const [task = '', redisUrl = '', count = ''] = process.argv.slice(2);
const redis = new Redis(redisUrl, { maxRetriesPerRequest: null });
await redis.ping(); // while it connects, it has listeners of its own

/**
 * @param {object} options
 * @param {'redis' | 'memory'} [store]
 * @param {any} [logger]
 */
async function open(options, store = 'redis', logger = ['warn', 'error']) {
  const app = await NestFactory.createApplicationContext(
    store === 'redis'
      ? RedisLockModule.forRoot({ connection: redis, ...options })
      : LockTestingModule.forRoot(options),
    { logger, abortOnError: false },
  );
  app.enableShutdownHooks();
  const locks = app.get(LockService);
  /** @type {any} */
  const engine = Reflect.get(locks, Symbol.for('nestjs-locked/LockRunner'));
  return { app, locks, residue: () => engine.residue };
}

function memory() {
  globalThis.gc?.();
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

function listeners() {
  return redis.eventNames().reduce((sum, name) => sum + redis.listenerCount(name), 0);
}

/**
 * What the engine still keeps when all commands in flight have been answered.
 * @param {() => { tokens: number }} residue
 */
async function settled(residue) {
  for (let i = 0; i < 100 && residue().tokens > 0; i += 1) await sleep(50);
  return residue();
}

/**
 * This many single tries, every second one of a key that is taken.
 * @param {number} total
 * @param {'redis' | 'memory'} store
 */
async function tryLocks(total, store) {
  const { app, locks, residue } = await open({ leaseMs: 30_000 }, store);
  const taken = await locks.acquire('scale:taken');
  /** @param {number} tries */
  const run = async (tries) => {
    let left = tries;
    let got = 0;
    let failed = 0;
    const caller = async (/** @type {number} */ i) => {
      for (; left > 0; left -= 1) {
        const key = left % 2 === 0 ? 'scale:taken' : `scale:try:${i}`;
        try {
          const lock = await locks.tryAcquire(key, { reentrant: false });
          if (lock === null) continue;
          got += 1;
          await lock.release();
        } catch (error) {
          if (!(error instanceof LockStoreError)) throw error;
          failed += 1; // a single try gives Redis, and this process, a second
        }
      }
    };
    await Promise.all(Array.from({ length: 100 }, (_, i) => caller(i)));
    return { got, failed };
  };
  await run(total / 20); // warm
  const before = { memory: memory(), listeners: listeners() };
  const from = performance.now();
  const { got, failed } = await run(total);
  const ms = performance.now() - from;
  const after = { memory: memory(), listeners: listeners() };
  await taken.release();
  const left = await settled(residue);
  await app.close();
  return { got, failed, ms, before, after, residue: left };
}

/** @type {Record<string, (number: number) => Promise<object>>} */
const tasks = {
  'try-locks': (total) => tryLocks(total, 'redis'),

  'try-locks-memory': (total) => tryLocks(total, 'memory'),

  /** One caller waits this many milliseconds for a key that somebody else keeps. */
  async wait(ms) {
    const { app, locks, residue } = await open({ leaseMs: 500 });
    /** @param {number} waitMs */
    const wait = async (waitMs) => {
      const error = await locks
        .acquire('scale:kept', { waitMs })
        .catch((/** @type {unknown} */ reason) => reason);
      return error instanceof LockNotAcquiredError;
    };
    await wait(1_000); // warm
    const before = { memory: memory(), listeners: listeners() };
    const from = performance.now();
    const waiting = wait(ms);
    await sleep(ms / 2);
    const during = { memory: memory(), listeners: listeners() };
    const refused = await waiting;
    const waited = performance.now() - from;
    const left = await settled(residue);
    const after = { memory: memory(), listeners: listeners() };
    await app.close();
    return { refused, waited, before, during, after, residue: left };
  },

  /** This many locks, held while the server stands still for longer than a command may take. */
  async silence(total) {
    const leaseMs = 24_000; // the time left after the silence is enough for a busy machine
    /** @type {Record<'log' | 'warn' | 'error', string[]>} */
    const lines = { log: [], warn: [], error: [] };
    const note = (/** @type {'log' | 'warn' | 'error'} */ level) => (/** @type {unknown} */ line) =>
      void lines[level].push(String(line));
    const logger = { log: note('log'), warn: note('warn'), error: note('error') };
    const { app, locks } = await open({ leaseMs, waitMs: 60_000 }, 'redis', logger);
    const held = [];
    let lost = 0;
    for (let i = 0; i < total; i += 500) {
      const names = Array.from({ length: Math.min(500, total - i) }, (_, j) => `scale:${i + j}`);
      for (const lock of await Promise.all(names.map((name) => locks.acquire(name)))) {
        lock.signal.addEventListener('abort', () => (lost += 1));
        held.push(lock);
      }
    }
    await sleep(leaseMs / 2); // every lock has been renewed
    const pid = Number(/^process_id:(\d+)/m.exec(await redis.info('server'))?.[1]);
    const from = await server();
    Object.assign(lines, { log: [], warn: [], error: [] });
    process.kill(pid, 'SIGSTOP');
    await sleep(9_000);
    process.kill(pid, 'SIGCONT');
    await sleep(leaseMs / 4); // until the next renewals are due
    const to = await server();
    await sleep(leaseMs / 2);
    const kept = held.filter((lock) => lock.isHeld).length;
    for (let i = 0; i < total; i += 500)
      await Promise.all(held.slice(i, i + 500).map((lock) => lock.release()));
    await app.close();
    return { kept, lost, scripts: to.scripts - from.scripts, ...lines };
  },

  /** This many locks, held for three leases. */
  async hold(total) {
    const leaseMs = 9_000; // a busy machine renews them all in three seconds, but not in one
    const { app, locks, residue } = await open({ leaseMs, waitMs: 60_000 });
    const held = [];
    let lost = 0;
    for (let i = 0; i < total; i += 500) {
      const names = Array.from({ length: Math.min(500, total - i) }, (_, j) => `scale:${i + j}`);
      held.push(...(await Promise.all(names.map((name) => locks.acquire(name)))));
    }
    for (const lock of held) lock.signal.addEventListener('abort', () => (lost += 1));
    await sleep(leaseMs); // every lock has been renewed once
    const timers = process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
    const delay = monitorEventLoopDelay({ resolution: 1 });
    const from = await server();
    delay.enable();
    await sleep(2 * leaseMs);
    delay.disable();
    const to = await server();
    const kept = held.filter((lock) => lock.isHeld).length;
    const during = residue();
    // The number of scripts for the same renewals with one script each.
    const single = await cpuOfSingleRenewals(held.slice(0, 2_000).map(({ key }) => key));
    let released = 0;
    for (let i = 0; i < total; i += 500) {
      const answers = await Promise.all(held.slice(i, i + 500).map((lock) => lock.release()));
      released += answers.filter(Boolean).length;
    }
    const left = await settled(residue);
    await app.close();
    return {
      kept,
      lost,
      released,
      timers,
      during,
      residue: left,
      delayP99: delay.percentile(99) / 1e6,
      delayMax: delay.max / 1e6,
      scripts: to.scripts - from.scripts,
      cpuMs: to.cpuMs - from.cpuMs,
      renewals: ((2 * leaseMs) / (leaseMs / 3)) * total,
      singleCpuMs: single,
    };
  },
};

/** What the server has spent so far. */
async function server() {
  const [cpu, stats] = await Promise.all([redis.info('cpu'), redis.info('commandstats')]);
  const seconds = (/** @type {string} */ name) =>
    Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(cpu)?.[1]);
  return {
    cpuMs: 1_000 * (seconds('used_cpu_user') + seconds('used_cpu_sys')),
    scripts: Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1]),
  };
}

/**
 * One script per lock, each a command of its own, as other libraries renew: owner check and PEXPIRE, nothing else.
 * @param {readonly string[]} keys
 * @returns milliseconds of server CPU for each
 */
async function cpuOfSingleRenewals(keys) {
  const script = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
  const sha = /** @type {string} */ (await redis.script('LOAD', script));
  const tokens = await redis.mget(keys.map((key) => `lock:{${key}}`));
  const from = await server();
  for (const [i, key] of keys.entries()) {
    await redis.evalsha(sha, 1, `lock:{${key}}`, tokens[i] ?? '', 4_000);
  }
  const to = await server();
  return (to.cpuMs - from.cpuMs) / keys.length;
}

const result = await tasks[task]?.(Number(count));
redis.disconnect();
console.log(JSON.stringify(result));
