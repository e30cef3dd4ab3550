/** The outcome of a command that must not be sent twice when we give up its connection ourselves. */
import { expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { CommandConnection } from '../../libs/nestjs-locked/src/redis/connection/traffic/command-connection.js';
import { RedisKeys } from '../../libs/nestjs-locked/src/redis/scripts/redis-keys.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { useRedisServer } from '../support/own-redis.js';

const server = useRedisServer();

it('a command on a connection that we give up fails with that reason, not with a broken connection', async () => {
  const client = new Redis(server.url, { lazyConnect: true });
  afterTest(() => client.disconnect());
  const connection = new CommandConnection({
    name: 'given-up',
    clock: systemClock,
    timeLimitMs: 60_000,
    leaseMs: 180_000,
    pingEveryMs: 60_000,
    check: (redis) => redis.ping(),
    keys: new RedisKeys('lock:'),
    scripts: [],
    inCluster: false,
  });
  connection.open(client, {
    admitted: () => {},
    failed: () => {},
    lost: () => {},
    back: () => {},
    replaced: () => {},
  });
  afterTest(() => connection.close());
  await eventually(() => expect(connection.isReady).toBe(true));
  const outcome = connection.run(
    {
      action: 'revoke',
      keys: [],
      isRepeatable: false,
      send: (redis) => redis.call('BLPOP', 'nothing', 0),
    },
    (ended) => ended,
  );
  await eventually(async () =>
    expect(await server.admin.info('clients')).toContain('blocked_clients:1'),
  );
  connection.reconnect(new Error('it leads to another server'));

  expect(await outcome).toMatchObject({
    kind: 'failed',
    neverRan: false,
    cause: {
      message: 'Cannot revoke: the connection to Redis was given up: it leads to another server',
    },
  });
});
