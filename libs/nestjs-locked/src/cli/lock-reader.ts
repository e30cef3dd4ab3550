import { keyProblem } from '../core/keys/lock-key.js';
import { introducedAt, modeOf, processIdOf } from '../core/store/lease-token.js';
import {
  holderWith,
  type LockInspector,
  processIn,
  type ProcessRecord,
} from '../core/store/lock-inspector.js';
import { lockState } from '../core/store/lock-state.js';
import { leaseIdOf, permitOf, tokensIn } from '../core/store/shared-value.js';
import type { RedisConnection } from '../redis/connection/server/redis-client.js';
import type { RedisKeys } from '../redis/scripts/redis-keys.js';
import { hasWrongType } from '../redis/scripts/reply-error.js';
import type { LockView } from './lock-view.js';
import type { OperatorServers } from './operator-servers.js';

/** How many locks are asked for at a time. */
const MOST_AT_ONCE = 200;

/** How many of several holders are named. */
const MOST_HOLDERS = 100;

/** The entries of processes that were read already, because a process may hold many locks. */
type Entries = Map<string, Promise<ProcessRecord | undefined>>;

/**
 * Reads who holds what. The inspector of a lock service does so with a script, which a user who may only read cannot
 * run. These are three commands for each lock, written together: one server has no other command between them in
 * practice, and if it has, a line may show a holder with the lease of the next one.
 */
export class LockReader {
  readonly #servers: OperatorServers;
  readonly #keys: RedisKeys;
  readonly #inspector: Pick<LockInspector, 'list'>;

  constructor(servers: OperatorServers, keys: RedisKeys, inspector: Pick<LockInspector, 'list'>) {
    this.#servers = servers;
    this.#keys = keys;
    this.#inspector = inspector;
  }

  /** @returns the held locks, in no particular order @throws LockKeyError · LockStoreError */
  async list(pattern: string): Promise<LockView[]> {
    const views: LockView[] = [];
    const entries: Entries = new Map();
    const readAll = async (keys: readonly string[]): Promise<void> => {
      const found = await Promise.all(keys.map((key) => this.read(key, entries)));
      views.push(...found.filter((view) => view !== undefined));
    };
    let keys: string[] = [];
    for await (const key of this.#inspector.list(pattern)) {
      if (keyProblem(key) !== undefined) continue; // of another kind of client: no call of ours can want it
      keys.push(key);
      if (keys.length < MOST_AT_ONCE) continue;
      await readAll(keys);
      keys = [];
    }
    await readAll(keys);
    return views;
  }

  /** @returns undefined if nobody holds it @throws LockStoreError */
  async read(key: string, entries: Entries = new Map()): Promise<LockView | undefined> {
    const [lock, queue] = this.#keys.of(key);
    const [value, pttl, waiters] = await this.#ask(`look at '${key}'`, lock, (redis) =>
      Promise.all([
        redis.get(lock).catch(ifOfOtherType('')),
        redis.call('PTTL', lock).then(Number),
        redis.call('ZCARD', queue).catch(ifOfOtherType(0)).then(Number),
      ]),
    );
    if (value === null || pttl === -2) return undefined;
    const tokens = tokensIn(value);
    const holders = await Promise.all(
      tokens.slice(0, MOST_HOLDERS).map(async (token) => {
        const process = await this.#processOf(token, entries);
        return { ...holderWith({ token, process }), ...permitOf(value, token) };
      }),
    );
    const [token = ''] = tokens;
    return {
      key,
      value,
      state: lockState(value),
      mode: modeOf(token),
      leaseId: leaseIdOf(value),
      holder: holders[0],
      holders,
      since: introducedAt(token),
      remainingMs: pttl === -1 ? Infinity : pttl,
      waiters,
    };
  }

  #processOf(token: string, entries: Entries): Promise<ProcessRecord | undefined> | undefined {
    const processId = processIdOf(token);
    if (processId === undefined) return undefined;
    let entry = entries.get(processId);
    if (entry === undefined) {
      const redisKey = this.#keys.processOf(processId);
      entry = this.#ask('look at a process', redisKey, (redis) =>
        redis.get(redisKey).catch(ifOfOtherType(null)),
      ).then(processIn);
      entries.set(processId, entry);
    }
    return entry;
  }

  /** @throws LockStoreError */
  #ask<T>(
    action: string,
    redisKey: string,
    send: (redis: RedisConnection) => Promise<T>,
  ): Promise<T> {
    return this.#servers.run({ action, keys: [], redisKey, send }, (outcome) => {
      if (outcome.kind === 'failed') throw outcome.cause;
      return outcome.reply as T;
    });
  }
}

/** A key whose name is like ours may belong to another client, and be of another type. */
function ifOfOtherType<T>(instead: T): (error: unknown) => T {
  return (error) => {
    if (hasWrongType(error)) return instead;
    throw error;
  };
}
