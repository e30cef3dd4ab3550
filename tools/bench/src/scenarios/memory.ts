import { RedisServer } from 'dev-servers';
import { setTimeout as sleep } from 'node:timers/promises';
import { ServerStatistics } from '../measure/server-statistics.js';
import { spreadsOf } from '../measure/statistics.js';
import type { Row } from '../results.js';
import { withServices } from '../worker/worker-process.js';
import type { Scenario } from './scenario.js';

const KEYS = 4_000;
const OTHER_KEYS = 40_000;
/** Nothing ends, and nothing is renewed, while it is measured. */
const LONG = { leaseMs: 600_000, maxHoldMs: 3_600_000 };

/** docs/operations.md shows what comes out of it. */
export const memory: Scenario = {
  id: 'memory',
  title: 'What locks take of the memory of Redis',
  what: 'Bytes for each of 4,000 keys. Redis has other keys from the start, so that its tables of keys, which double now and then, keep their size meanwhile. What they take is not counted: for each key 16 to 32 bytes, because every key of a lock expires and so stands in two tables.',
  isQuick: false,
  async run() {
    const redis = await RedisServer.start();
    const server = new ServerStatistics(redis.url);
    try {
      const rows: Row[] = [];
      for (const size of [8, 36]) rows.push(await rowOf(size, redis.url, server));
      return {
        columns: [
          { id: 'held', title: 'held lock, with its fencing number', unit: 'bytes' },
          { id: 'waiting', title: 'a process that waits for it', unit: 'bytes' },
          { id: 'released', title: 'fencing number after the release', unit: 'bytes' },
          { id: 'served', title: 'the same, if others have waited', unit: 'bytes' },
        ],
        rows,
        goals: [],
      };
    } finally {
      server.close();
      await redis.stop();
    }
  },
};

function rowOf(size: number, url: string, server: ServerStatistics): Promise<Row> {
  const keys = Array.from({ length: KEYS }, (_, n) => `${n}:`.padEnd(size, 'x'));
  return withServices(2, { url, ...LONG }, async ([holder, waiter]) => {
    await server.redis.flushall();
    const fill = `for n = 1, ${OTHER_KEYS} do redis.call('SET', 'other:' .. n, n, 'PX', 36e5) end`;
    await server.redis.eval(fill, 0);
    const empty = await settledMemory(server);
    await holder.do('takeMany', { keys });
    const held = await settledMemory(server);
    await holder.do('releaseMany');
    const released = await settledMemory(server);

    await holder.do('takeMany', { keys });
    const heldAgain = await settledMemory(server);
    await waiter.do('startWaiting', { keys });
    while ((await server.redis.zcard(`lock:{${keys.at(-1)}}:queue`)) === 0) await sleep(20);
    const waitedFor = await settledMemory(server);
    await holder.do('releaseMany');
    await waiter.do('allServed');
    const served = await settledMemory(server);

    const values = spreadsOf({
      held: Math.round((held - empty) / KEYS),
      waiting: Math.round((waitedFor - heldAgain) / KEYS),
      released: Math.round((released - empty) / KEYS),
      served: Math.round((served - empty) / KEYS),
    });
    return { name: `keys of ${size} bytes`, values };
  });
}

/** What Redis uses, once that does not change any more. */
async function settledMemory(server: ServerStatistics): Promise<number> {
  for (let before = NaN; ;) {
    await sleep(500);
    const used = await server.usedMemory();
    if (used === before) return used;
    before = used;
  }
}
