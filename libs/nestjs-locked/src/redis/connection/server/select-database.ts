import { LockConfigError } from '../../../core/lock.errors.js';
import { isReplyError, isUnknownCommand } from '../../scripts/reply-error.js';
import { reasonOf } from './reason-of.js';
import type { RedisConnection } from './redis-client.js';

/**
 * Selects the database of a new connection. ioredis has done so too, but if the server refuses, it stays in database 0,
 * where others take their locks.
 *
 * @param inCluster whether the server is a node of a cluster, most of which have one database only
 * @throws LockConfigError if the server does not have it, or lacks the command · any other error of the command, which
 * may pass
 */
export async function selectDatabase(redis: RedisConnection, inCluster: boolean): Promise<void> {
  const { db: database = 0 } = redis.options;
  if (database === 0) return;
  try {
    await redis.call('SELECT', database);
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw isUnknownCommand(error)
      ? noSelectError(database, error)
      : await missingDatabase(redis, database, inCluster, error);
  }
}

/** Everything else has a code of its own, such as NOPERM, BUSY or LOADING. */
function isMissing(error: unknown): boolean {
  return isReplyError(error) && error.message.startsWith('ERR ');
}

function noSelectError(database: number, cause: unknown): LockConfigError {
  return new LockConfigError(
    `Database ${database} in 'connection' cannot be selected: ${reasonOf(cause)}; leave the number out, or do not disable SELECT in the configuration of the server`,
    undefined,
    { cause },
  );
}

async function missingDatabase(
  redis: RedisConnection,
  database: number,
  inCluster: boolean,
  cause: unknown,
): Promise<LockConfigError> {
  const missing = `Database ${database} in 'connection' does not exist`;
  // Of Valkey 9; other servers do not know it.
  const setting = inCluster ? 'cluster-databases' : 'databases';
  const count = await countIn(redis, setting);
  if (inCluster && (count ?? '1') === '1') {
    return new LockConfigError(
      `${missing}: a Redis Cluster has only database 0; leave the number out`,
      undefined,
      { cause },
    );
  }
  const which =
    count === undefined
      ? ` (${reasonOf(cause)}); most servers have 16, numbered from 0`
      : `: the server has ${count}, numbered from 0`;
  return new LockConfigError(
    `${missing}${which}; use another number, or raise '${setting}' in the configuration of the server`,
    undefined,
    { cause },
  );
}

/** How many databases the server has, according to this setting; undefined if it does not tell. */
async function countIn(redis: RedisConnection, setting: string): Promise<string | undefined> {
  const answer = await redis.call('CONFIG', 'GET', setting).catch(() => undefined);
  return /\d+/.exec(JSON.stringify(answer ?? ''))?.[0];
}
