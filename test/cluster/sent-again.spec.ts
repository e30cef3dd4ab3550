/** A command whose connection broke before the answer came is sent again, and may then be refused by the cluster. */
import { expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { CommandConnection } from '../../libs/nestjs-locked/src/redis/connection/traffic/command-connection.js';
import type {
  CommandOutcome,
  RedisCommand,
} from '../../libs/nestjs-locked/src/redis/connection/traffic/redis-command.js';
import { RedisKeys } from '../../libs/nestjs-locked/src/redis/scripts/redis-keys.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { openAdmin } from '../support/open-locks.js';
import { startRedisCluster } from '../support/own-cluster.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

/** More than a test takes. */
const LIMIT_MS = 40_000;

/** Settles when its connection is used. */
async function openConnection(url: string): Promise<CommandConnection> {
  const connection = new CommandConnection({
    ...{ name: 'lock:commands', clock: systemClock, inCluster: true, scripts: [] },
    ...{ timeLimitMs: LIMIT_MS, leaseMs: 3 * LIMIT_MS, pingEveryMs: LIMIT_MS },
    check: (redis) => redis.ping(),
    keys: new RedisKeys('lock:', true),
  });
  afterTest(() => connection.close());
  await new Promise<void>((resolve) => {
    const admitted = (): void => resolve();
    const nothing = (): void => {};
    const client = new Redis(url, { lazyConnect: true });
    const others = { failed: nothing, lost: nothing, back: nothing, replaced: nothing };
    connection.open(client, { admitted, ...others });
  });
  return connection;
}

it('a command that may have run counts as such even if it is refused when it is sent again', async () => {
  const cluster = await startRedisCluster({ replicasPerMaster: 0, nodeTimeoutMs: 60_000 });
  const key = uniqueKey();
  const master = await cluster.masterOf(key);
  const proxy = await TcpProxy.start(master.port);
  const admin = openAdmin(master.url);
  const connection = await openConnection(proxy.url);
  const redisKey = `lock:{${key}}`;
  const run = (): Promise<CommandOutcome> => {
    const send: RedisCommand['send'] = (redis) => redis.set(redisKey, 'mine', 'PX', LIMIT_MS);
    return connection.run({ action: 'acquire', keys: [key], redisKey, send }, (outcome) => outcome);
  };

  proxy.swallowAnswersOfOldest();
  const sentTwice = run();
  await eventually(async () => expect(await admin.get(redisKey)).toBe('mine')); // carried out
  await admin.call('CLUSTER', 'DELSLOTS', await cluster.slotOf(key));
  proxy.cut();

  const refused = { kind: 'failed', cause: { message: expect.stringMatching(/CLUSTERDOWN/) } };
  expect(await sentTwice).toMatchObject({ ...refused, neverRan: false });
  expect(await run()).toMatchObject({ ...refused, neverRan: true }); // sent once
});
