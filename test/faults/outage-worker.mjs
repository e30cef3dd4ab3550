/**
 * A process that requests locks from Redis at a steady rate, with the built library. It is started with `fork`; its
 * arguments are the URL of Redis and the lease in milliseconds. It sends `open` when it is ready. It answers a number
 * of milliseconds with the outcomes of the calls made in that time, and `acquire` with the outcome of one call.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { AFTER_STALL_MS } from '../../libs/nestjs-locked/dist/modules/core/time/after-silence.js';
import { systemClock } from '../../libs/nestjs-locked/dist/modules/core/time/clock.js';
import { openRedis } from '../../libs/nestjs-locked/dist/modules/redis/connection/server/open-redis.js';
import { RedisLockStore } from '../../libs/nestjs-locked/dist/modules/redis/redis-lock-store.js';

const CALLS_PER_SECOND = 1_000;
const [redisUrl = '', lease = ''] = process.argv.slice(2);
const leaseMs = Number(lease);

const redis = openRedis(redisUrl);
const store = new RedisLockStore({
  client: redis.client,
  clock: systemClock,
  keyPrefix: 'lock:',
  leaseMs,
  closeClient: () => redis.close(),
});
const ignore = () => {};
await store.open({
  message: ignore,
  reconnected: ignore,
  inboxLost: ignore,
  storeLost: ignore,
  storeBack: ignore,
  mayEvict: ignore,
});

let count = 0;
function acquire() {
  const key = `stock:${++count}`;
  return store.acquire({ key, token: `${store.processId}:${count}`, leaseMs, nowait: true });
}

function usedMb() {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed / 1e6;
}

/**
 * Requests locks at that rate.
 * @param {number} ms for how long
 * @returns the heap in MB, sampled twice a second, and the number of calls for each outcome
 */
async function ask(ms) {
  const heap = [];
  /** @type {Record<string, number>} */
  const kinds = {};
  const from = performance.now();
  let asked = 0;
  for (let next = 500; performance.now() - from < ms;) {
    for (; asked < ((performance.now() - from) / 1_000) * CALLS_PER_SECOND; asked++) {
      void acquire().then(({ kind }) => (kinds[kind] = (kinds[kind] ?? 0) + 1));
    }
    await sleep(5);
    if (performance.now() - from < next) continue;
    heap.push(usedMb());
    next += 500;
  }
  // Waits until the last call has timed out. Collecting garbage blocks the event loop, which extends the calls pending
  // at that time, once.
  await sleep(store.commandTimeoutMs + AFTER_STALL_MS);
  return { asked, heap, kinds };
}

process.on('message', async (/** @type {number | 'acquire'} */ task) => {
  process.send?.(task === 'acquire' ? (await acquire()).kind : await ask(task));
});
process.on('disconnect', () => process.exit());
await acquire();
process.send?.('open');
