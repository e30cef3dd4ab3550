import { isObject } from '../../core/arguments.js';
import { LockConfigError } from '../../core/lock.errors.js';
import { assertOptions, must, type OptionTable, wholeNumber } from '../../core/option.js';
import { shownValue } from '../../core/runtime/shown-value.js';
import { invalidConnection } from '../connection/server/connection-error.js';
import {
  openRedis,
  type RedisConnectionOptions,
  type RedisOptions,
} from '../connection/server/open-redis.js';
import type { RedisClient } from '../connection/server/redis-client.js';
import { isCluster } from '../connection/server/redis-cluster.js';

/** Several independent masters, of which more than half must vote for each lock. */
export interface RedisQuorumOptions {
  /**
   * Where they are: an odd number, from 3 to 9, of URLs, ioredis options or ioredis clients. Each is a server of its
   * own, alone or behind its own sentinels, and none is a replica of another.
   */
  readonly quorum: readonly (string | RedisOptions | RedisClient)[];
  /**
   * How long a node that has started gives no vote, in milliseconds, because it may have forgotten one: at least the
   * longest `leaseMs` that any process uses. 0 if every node keeps every write (`appendfsync always`).
   * @default the `leaseMs` of the module
   */
  readonly rejoinAfterMs?: number;
}

/** Three servers tolerate the loss of one, nine that of four; a command to each is sent for every step of a lock. */
const FEWEST = 3;
const MOST = 9;

const OPTIONS: OptionTable<RedisQuorumOptions> = {
  quorum: { isRequired: true, check: must('a list of servers', Array.isArray) },
  rejoinAfterMs: { check: wholeNumber(0, 'milliseconds; 0 = at once') },
};

export interface OpenedQuorum {
  readonly clients: readonly RedisClient[];
  readonly rejoinAfterMs: number | undefined;
  /** Closes the clients created here. Those of the application are left alone. */
  readonly closeClients: () => Promise<void>;
}

/** Whether a connection is meant to be a quorum. */
export function isQuorum(
  connection: RedisConnectionOptions | RedisQuorumOptions,
): connection is RedisQuorumOptions {
  return isObject(connection) && Object.hasOwn(connection, 'quorum');
}

/**
 * The clients from whose options the connections are made. Those created here never connect themselves.
 * @throws LockConfigError if `connection` is invalid
 */
export function openQuorum(connection: RedisQuorumOptions): OpenedQuorum {
  assertOptions(OPTIONS, connection, { prefix: 'connection.' });
  const { quorum, rejoinAfterMs } = connection;
  assertCount(quorum.length);
  const opened = quorum.map((server, i) => {
    try {
      const redis = openRedis(server);
      if (isCluster(redis.client)) {
        throw invalidConnection(
          'a Redis Cluster cannot be a node, because it loses keys in a failover as one server does; name independent servers, or pass the Cluster itself as connection, without a quorum',
        );
      }
      return { client: redis.client, close: () => redis.close() };
    } catch (error) {
      if (!(error instanceof LockConfigError)) throw error;
      throw new LockConfigError(`quorum[${i}]: ${error.message}`, undefined, { cause: error });
    }
  });
  return {
    clients: opened.map(({ client }) => client),
    rejoinAfterMs,
    closeClients: async () => {
      await Promise.all(opened.map(({ close }) => close()));
    },
  };
}

function assertCount(count: number): void {
  if (count % 2 === 1 && count >= FEWEST && count <= MOST) return;
  throw invalidConnection(`quorum has ${shownValue(count)} servers; ${problemOf(count)}`);
}

function problemOf(count: number): string {
  if (count < FEWEST)
    return `fewer than ${FEWEST} tolerate the loss of none: name ${FEWEST}, or pass a single server itself, as connection`;
  if (count > MOST)
    return `more than ${MOST} cost more commands for each lock than their loss is likely: name ${MOST} at most`;
  return `an even number tolerates the loss of no more than one server less, and costs more: name ${count - 1} or ${count + 1}`;
}
