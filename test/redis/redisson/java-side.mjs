/**
 * Plays the Java side: what `RLock` of Redisson does to Redis, in a process of its own. Written from the source of
 * Redisson 4.7.1-SNAPSHOT (66863978): RedissonLock, RedissonBaseLock, LockTask, LockPubSub and PublishSubscribe. No
 * Java runs. Nothing of the library is used.
 *
 * @typedef {import('./java-process.js').JavaCommands} JavaCommands
 */
import { Redis } from 'ioredis';
import { randomBytes, randomUUID } from 'node:crypto';
import { clearTimeout } from 'node:timers';
import { setTimeout as sleep } from 'node:timers/promises';

/** RedissonLock.tryLockInnerAsync */
const LOCK = `
if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return redis.call('pttl', KEYS[1])
end
redis.call('hincrby', KEYS[1], ARGV[2], 1)
redis.call('pexpire', KEYS[1], ARGV[1])
return false`;

/** RedissonLock.unlockInnerAsync: KEYS lock, channel, latch · ARGV message, lease, field, command, time of the latch */
const UNLOCK = `
local before = redis.call('get', KEYS[3])
if before then return tonumber(before) end
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return false end
local isOver = redis.call('hincrby', KEYS[1], ARGV[3], -1) <= 0
if isOver then
  redis.call('del', KEYS[1])
  redis.call(ARGV[4], KEYS[2], ARGV[1])
else
  redis.call('pexpire', KEYS[1], ARGV[2])
end
redis.call('set', KEYS[3], isOver and 1 or 0, 'px', ARGV[5])
return isOver and 1 or 0`;

/** LockTask.buildChunk */
const RENEW = `
local result = {}
for i, key in ipairs(KEYS) do
  result[i] = redis.call('hexists', key, ARGV[i + 1])
  if result[i] == 1 then redis.call('pexpire', key, ARGV[1]) end
end
return result`;

/** RedissonLock.forceUnlockAsync */
const FORCE_UNLOCK = `
if redis.call('del', KEYS[1]) == 0 then return 0 end
redis.call(ARGV[2], KEYS[2], ARGV[1])
return 1`;

const UNLOCK_MESSAGE = '0';

/** ServiceManager.id */
const clientId = randomUUID();
/** Config.lockWatchdogTimeout */
let watchdogMs = 30_000;
/** @type {Redis} */
let redis;
/** @type {Redis} */
let subscriber;

/** RedissonObject.prefixName @param {string} prefix @param {string} name */
const prefixName = (prefix, name) =>
  name.includes('{') ? `${prefix}:${name}` : `${prefix}:{${name}}`;
/** @param {string} name */
const channelOf = (name) => prefixName('redisson_lock__channel', name);
/** @param {number} thread */
const fieldOf = (thread) => `${clientId}:${thread}`;

// ---- the watchdog ---------------------------------------------------------------------------------------------

/** @type {Map<string, string>} field of each renewed lock */
const renewed = new Map();
let renewals = 0;

async function renewAll() {
  if (renewed.size > 0) {
    const names = [...renewed.keys()];
    const fields = [...renewed.values()];
    const found = /** @type {number[]} */ (
      await redis.eval(RENEW, names.length, ...names, watchdogMs, ...fields)
    );
    renewals += 1;
    names.filter((_, i) => found[i] !== 1).forEach((name) => renewed.delete(name));
  }
  setTimeout(renewAll, watchdogMs / 3);
}

// ---- waiting --------------------------------------------------------------------------------------------------

/** RedissonLockEntry: a semaphore without permits, and how many wait for it. */
class Entry {
  count = 0;
  #permits = 0;
  /** @type {(() => void)[]} */
  #waiters = [];
  /** @type {Promise<unknown> | undefined} */
  subscribed;

  release() {
    const next = this.#waiters.shift();
    if (next === undefined) this.#permits += 1;
    else next();
  }

  /** @param {number} ms */
  tryAcquire(ms) {
    if (this.#permits > 0) {
      this.#permits -= 1;
      return Promise.resolve();
    }
    return /** @type {Promise<void>} */ (
      new Promise((resolve) => {
        const done = () => {
          clearTimeout(timer);
          this.#waiters = this.#waiters.filter((waiter) => waiter !== done);
          resolve();
        };
        const timer = setTimeout(done, ms);
        this.#waiters.push(done);
      })
    );
  }
}

/** @type {Map<string, Entry>} by channel */
const entries = new Map();

/** @param {string} channel */
async function subscribe(channel) {
  const entry = entries.get(channel) ?? new Entry();
  entries.set(channel, entry);
  entry.count += 1;
  entry.subscribed ??= subscriber.subscribe(channel);
  await entry.subscribed;
  return entry;
}

/** @param {string} channel */
async function unsubscribe(channel) {
  const entry = entries.get(channel);
  if (entry === undefined) return;
  entry.count -= 1;
  if (entry.count > 0) return;
  entries.delete(channel);
  await subscriber.unsubscribe(channel);
}

// ---- RLock ----------------------------------------------------------------------------------------------------

/** @param {string} name @param {number} thread @param {number} leaseMs @returns {Promise<number | null>} */
async function tryAcquire(name, thread, leaseMs) {
  const ms = leaseMs > 0 ? leaseMs : watchdogMs;
  const ttl = /** @type {number | null} */ (await redis.eval(LOCK, 1, name, ms, fieldOf(thread)));
  if (ttl === null && leaseMs <= 0) renewed.set(name, fieldOf(thread));
  return ttl;
}

/** @type {JavaCommands} */
const commands = {
  async open(url, lockWatchdogTimeout) {
    watchdogMs = lockWatchdogTimeout ?? watchdogMs;
    redis = new Redis(url);
    subscriber = new Redis(url);
    subscriber.on('message', (channel, message) => {
      if (message === UNLOCK_MESSAGE) entries.get(channel)?.release();
    });
    setTimeout(renewAll, watchdogMs / 3);
    return clientId;
  },

  async tryLock(name, thread, waitMs = 0, leaseMs = -1) {
    const until = now() + waitMs;
    if ((await tryAcquire(name, thread, leaseMs)) === null) return now();
    if (now() >= until) return null;
    const entry = await subscribe(channelOf(name));
    try {
      for (;;) {
        const ttl = await tryAcquire(name, thread, leaseMs);
        if (ttl === null) return now();
        const leftMs = until - now();
        if (leftMs <= 0) return null;
        await entry.tryAcquire(ttl >= 0 ? Math.min(ttl, leftMs) : leftMs);
      }
    } finally {
      await unsubscribe(channelOf(name));
    }
  },

  async unlock(name, thread) {
    const latch = `${prefixName('redisson_unlock_latch', name)}:${randomBytes(16).toString('hex')}`;
    const args = [UNLOCK_MESSAGE, watchdogMs, fieldOf(thread), 'PUBLISH', 12_000];
    const at = now();
    const result = await redis.eval(UNLOCK, 3, name, channelOf(name), latch, ...args);
    await redis.del(latch);
    if (result !== 0) renewed.delete(name);
    if (result === null) throw new Error('IllegalMonitorStateException');
    return at;
  },

  async forceUnlock(name) {
    renewed.delete(name);
    return (
      (await redis.eval(FORCE_UNLOCK, 2, name, channelOf(name), UNLOCK_MESSAGE, 'PUBLISH')) === 1
    );
  },

  async race({ key, counter, register, callers, times, pauseMs }) {
    /** @param {number} thread */
    const run = async (thread) => {
      for (let i = 0; i < times; i += 1) {
        await commands.tryLock(key, thread, 60_000);
        await redis.rpush(register, `enter java ${thread} ${clientId}`);
        const value = Number(await redis.get(counter));
        await sleep(pauseMs);
        await redis.set(counter, value + 1);
        await redis.rpush(register, `leave java ${thread} ${clientId}`);
        await commands.unlock(key, thread);
      }
    };
    await Promise.all(Array.from({ length: callers }, (_, i) => run(i + 1)));
  },

  async renewals() {
    return renewals;
  },
};

/** The clock of `sharedNow`. */
function now() {
  return Number(process.hrtime.bigint()) / 1e6;
}

process.on('message', async (/** @type {{ id: number, command: string, args: any[] }} */ order) => {
  const { id, command, args } = order;
  try {
    // @ts-expect-error the caller has the types
    const result = await commands[command](...args);
    process.send?.({ id, result });
  } catch (error) {
    process.send?.({ id, error: String(error) });
  }
});
process.on('disconnect', () => process.exit());
