import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { LockKeyError } from '../core/lock.errors.js';
import { globPattern } from '../core/runtime/glob-pattern.js';
import { quoted } from '../core/runtime/quoted.js';
import {
  type Asked,
  type HolderQuestion,
  MOST_HOLDERS_ASKED,
} from '../core/store/holder-question.js';
import { processIdOf } from '../core/store/lease-token.js';
import {
  type HolderRecord,
  type LockInspector,
  type LockRecord,
  type LockSurvey,
  processIn,
  type ProcessRecord,
  type SurveyedLock,
} from '../core/store/lock-inspector.js';
import { leasesIn, tokensIn } from '../core/store/shared-value.js';
import { atMost } from '../core/time/at-most.js';
import type { Clock } from '../core/time/clock.js';
import type { CommandRunner, LockServers } from './connection/lock-servers.js';
import type { RedisConnection } from './connection/server/redis-client.js';
import { readEvictionPolicy } from './connection/server/server-info.js';
import type { RedisCommand } from './connection/traffic/redis-command.js';
import { lookAtLocks, type Looks } from './look-at-locks.js';
import type { LockScriptSet } from './scripts/lock-scripts.js';
import type { RedisKeys } from './scripts/redis-keys.js';
import type { RedisScript } from './scripts/redis-script.js';
import { isReplyError } from './scripts/reply-error.js';
import { readInspectReply } from './scripts/script-replies.js';

export interface RedisLockInspectorOptions {
  readonly servers: Pick<LockServers, 'run' | 'each' | 'isReady'>;
  readonly clock: Clock;
  readonly keys: RedisKeys;
  readonly scripts: Pick<LockScriptSet, 'inspect' | 'revoke' | 'askHolder' | 'answerQuestion'>;
  readonly processId: string;
  /** The prefix that the connection itself puts before the keys of its commands. */
  readonly connectionPrefix: string;
}

/** How long the entries of processes are kept. A process renews its entry before it expires. */
const KEPT_MS = 3_600_000;

/** How long to wait for the entry of a holder, without which most is known. */
const ENTRY_LIMIT_MS = 1_000;
/** The same while a server is known to be away. */
const ENTRY_LIMIT_AWAY_MS = 100;

const SCAN_SIZE = 500;

/** How many identities of other processes are remembered. */
const MOST_KNOWN = 1_000;

/** Who holds what, according to Redis. No lock depends on it. */
export class RedisLockInspector implements LockInspector {
  readonly #options: RedisLockInspectorOptions;
  #cancelRefresh: () => void = () => {};
  /** The identities of processes by their ids, which never change. */
  readonly #known = new Map<string, ProcessRecord>();
  #isPresent = false;
  #hasLeft = false;

  constructor(options: RedisLockInspectorOptions) {
    this.#options = options;
  }

  /** Registers this process. */
  async enter(): Promise<void> {
    this.#hasLeft = false;
    await this.present();
  }

  /** Writes the entry of this process, now and each time before it expires. */
  async present(): Promise<void> {
    if (this.#hasLeft) return; // the connection was made while the locks were closing
    const { clock, keys, processId } = this.#options;
    this.#cancelRefresh();
    this.#cancelRefresh = clock.after(KEPT_MS / 2, () => void this.present().catch(() => {}));
    this.#isPresent = true;
    const self = JSON.stringify({ host: hostname(), pid: process.pid });
    const own = keys.processOf(processId);
    await this.#run('introduce this process', own, (redis) => redis.set(own, self, 'PX', KEPT_MS));
  }

  async leave(): Promise<void> {
    this.#hasLeft = true;
    if (!this.#isPresent) return;
    this.#isPresent = false;
    const { servers, keys, processId } = this.#options;
    this.#cancelRefresh();
    // If it cannot be removed now, it expires.
    if (!servers.isReady) return;
    const own = keys.processOf(processId);
    await this.#run('forget this process', own, (redis) => redis.del(own)).catch(() => {});
  }

  async inspect(key: string, mostWaiting = 0): Promise<LockRecord | undefined> {
    const { keys, scripts, processId } = this.#options;
    const redisKeys = (): readonly string[] => keys.of(key).slice(0, 2);
    const args = [processId, mostWaiting];
    const found = readInspectReply(await this.#runScript(scripts.inspect, redisKeys, args, key));
    if (found === undefined) return undefined;
    const { waiting, ...lock } = found;
    const tokens = tokensIn(lock.value);
    const withProcess = async <T extends { token: string }>(it: T): Promise<T & HolderRecord> => ({
      ...it,
      process: await this.#processWith(it.token, key),
    });
    const [holders, queue] = await Promise.all([
      Promise.all(tokens.slice(0, Math.max(1, mostWaiting)).map((token) => withProcess({ token }))),
      Promise.all(waiting.map(withProcess)),
    ]);
    return { key, ...lock, holders, queue };
  }

  /**
   * Reads the entry of the process with this token, which another master of a cluster may have. While that is away or
   * silent, the record of the lock's master is shown without it.
   */
  async #processWith(token: string, key: string): Promise<ProcessRecord | undefined> {
    const { keys, servers, clock } = this.#options;
    const processId = processIdOf(token);
    if (processId === undefined) return undefined;
    const known = this.#known.get(processId);
    if (known !== undefined) return known;
    const record = keys.processOf(processId);
    const reading = this.#run(`inspect '${key}'`, record, (redis) => redis.get(record));
    const limitMs = servers.isReady ? ENTRY_LIMIT_MS : ENTRY_LIMIT_AWAY_MS;
    const text = await atMost(
      clock,
      limitMs,
      reading.catch(() => null),
    );
    const found = processIn(text ?? null);
    if (found === undefined) return undefined;
    if (this.#known.size === MOST_KNOWN) this.#known.clear();
    this.#known.set(processId, found);
    return found;
  }

  async *list(pattern: string): AsyncIterable<string> {
    const problem = this.#problemOf(pattern);
    if (problem !== undefined) throw problem;
    const seen = new Set<string>();
    for (const server of await this.#options.servers.each()) {
      for await (const page of this.#pagesOn(server, `{${pattern}}`)) {
        for (const name of page) {
          const key = this.#options.keys.keyOf(name);
          if (key === undefined || seen.has(key)) continue; // SCAN may return a key twice, or it has moved meanwhile
          seen.add(key);
          yield key;
        }
      }
    }
  }

  async survey(patterns: readonly string[], most: number): Promise<(LockSurvey | LockKeyError)[]> {
    const surveys = patterns.map(
      (pattern) => this.#problemOf(pattern) ?? new Survey(pattern, most),
    );
    const open = surveys.filter((survey) => survey instanceof Survey);
    const { keys, servers } = this.#options;
    for (const server of open.length === 0 ? [] : await servers.each()) {
      // The queues are beside their locks, so one pattern finds both.
      for await (const page of this.#pagesOn(server, '{*}*')) {
        const wanted = page.filter((name) => {
          const key = keys.keyOf(name) ?? keys.keyOfQueue(name);
          return key !== undefined && open.some((survey) => survey.wants(key));
        });
        if (wanted.length > 0) {
          const send = (redis: RedisConnection): Promise<Looks> => lookAtLocks(redis, keys, wanted);
          const looks = await runOn(server, { action: 'look at the locks', keys: [], send });
          for (const [key, part] of looks) for (const survey of open) survey.add(key, part);
        }
        if (open.every(({ isPartial }) => isPartial)) return surveys;
      }
    }
    return surveys;
  }

  /** A pattern that begins with the prefix would match no key that is meant. */
  #problemOf(pattern: string): LockKeyError | undefined {
    const { prefix } = this.#options.keys;
    if (prefix === '' || !pattern.startsWith(prefix)) return undefined;
    const withoutPrefix = pattern.slice(prefix.length) || '*';
    const escapedOnce = `[${prefix[0]}]${pattern.slice(1)}`;
    return new LockKeyError(
      `Cannot list the locks of ${quoted(pattern)}: it begins with the keyPrefix, which keys do not have here; write ${quoted(withoutPrefix)}, or ${quoted(escapedOnce)} if your keys begin like that, too`,
    );
  }

  /** @param pattern of the names, after the prefix @returns names without the prefix of the connection */
  async *#pagesOn(server: CommandRunner, pattern: string): AsyncIterable<string[]> {
    const { keys, connectionPrefix } = this.#options;
    yield* pagesOn(server, connectionPrefix, `${escaped(keys.prefix)}${pattern}`);
  }

  async ping(): Promise<void> {
    const send = (redis: RedisConnection): Promise<unknown> => redis.ping();
    const servers = await this.#options.servers.each();
    await Promise.all(
      servers.map((server) => runOn(server, { action: 'reach Redis', keys: [], send })),
    );
  }

  async evictionPolicy(): Promise<string | undefined> {
    // A server that refuses INFO is one that does not tell.
    const send = (redis: RedisConnection): Promise<string> =>
      redis.info('memory').catch((error: unknown) => {
        if (isReplyError(error)) return '';
        throw error;
      });
    const servers = await this.#options.servers.each();
    const infos = await Promise.all(
      servers.map((server) =>
        runOn(server, { action: 'ask for the eviction policy', keys: [], send }),
      ),
    );
    return infos.map(readEvictionPolicy).find((policy) => policy !== undefined);
  }

  async revoke(
    key: string,
    value?: string,
  ): Promise<Pick<LockRecord, 'value' | 'holders'> | undefined> {
    const { keys, scripts } = this.#options;
    // A second execution could take the lock from somebody who acquired it in between.
    const redisKeys = (): readonly string[] => keys.of(key);
    const args = value === undefined ? [randomUUID()] : [randomUUID(), leasesIn(value)];
    const held = await this.#runScript(scripts.revoke, redisKeys, args, key, false);
    if (typeof held !== 'string') return undefined;
    const [token] = tokensIn(held);
    if (token === undefined) return { value: held, holders: [] };
    return { value: held, holders: [{ token, process: await this.#processWith(token, key) }] };
  }

  async ask(key: string, id: string): Promise<readonly Asked[]> {
    const { keys, scripts, processId } = this.#options;
    const args = [processId, id, MOST_HOLDERS_ASKED];
    const reply = await this.#runScript(scripts.askHolder, () => keys.of(key), args, key);
    const asked = reply as [token: string, id: string, heard: number, keepsOut: number][];
    return asked.map(([token, of, heard, keepsOut]) => {
      return { token, id: of, isHeard: heard > 0, keepsOut: keepsOut === 1 };
    });
  }

  async answer({ key, from, id }: HolderQuestion, text: string): Promise<void> {
    const { keys, scripts } = this.#options;
    await this.#runScript(scripts.answerQuestion, () => keys.of(key), [from, id, text], key);
  }

  #runScript(
    script: RedisScript,
    redisKeys: () => readonly string[],
    args: readonly (string | number)[],
    key: string,
    isRepeatable = true,
  ): Promise<unknown> {
    return this.#run<unknown>(
      `${script.name} '${key}'`,
      this.#options.keys.lockOf(key),
      (redis, whole) => script.send(redis, redisKeys(), args, whole),
      isRepeatable,
    );
  }

  /** @throws LockStoreError */
  async #run<T>(
    action: string,
    redisKey: string,
    send: (redis: RedisConnection, whole: boolean) => Promise<T>,
    isRepeatable = true,
  ): Promise<T> {
    const command = { action, keys: [], redisKey, send, isRepeatable };
    return runOn(this.#options.servers, command);
  }
}

/** What one pattern has found. */
class Survey implements LockSurvey {
  readonly locks = new Map<string, SurveyedLock>();
  isPartial = false;
  readonly #matches: (text: string) => boolean;
  readonly #most: number;

  constructor(pattern: string, most: number) {
    this.#matches = globPattern(`{${pattern}}`);
    this.#most = most;
  }

  wants(key: string): boolean {
    return !this.isPartial && this.#matches(`{${key}}`);
  }

  add(key: string, part: Partial<SurveyedLock>): void {
    if (!this.wants(key)) return;
    const known = this.locks.get(key) ?? { value: undefined, waiters: 0, waitedMs: 0 };
    if (this.locks.size === this.#most && !this.locks.has(key)) this.isPartial = true;
    else this.locks.set(key, { ...known, ...part });
  }
}

type CommandOf<T> = RedisCommand & {
  send(redis: RedisConnection, whole: boolean): Promise<T>;
};

/**
 * All names that match, in portions. ioredis adds the prefix of the connection to the keys of commands, but not to a
 * pattern, and does not remove it from results.
 * @param pattern of the names, without that prefix @returns names without it
 */
export async function* pagesOn(
  server: CommandRunner,
  connectionPrefix: string,
  pattern: string,
): AsyncIterable<string[]> {
  const match = escaped(connectionPrefix) + pattern;
  let cursor = '0';
  do {
    const from = cursor;
    const send = (redis: RedisConnection): Promise<[string, string[]]> =>
      redis.scan(from, 'MATCH', match, 'COUNT', SCAN_SIZE);
    const [next, page] = await runOn(server, { action: 'list locks', keys: [], send });
    yield page.map((name) => name.slice(connectionPrefix.length));
    cursor = next;
  } while (cursor !== '0');
}

/** @throws LockStoreError */
export async function runOn<T>(server: CommandRunner, command: CommandOf<T>): Promise<T> {
  const outcome = await server.run(command, (ended) => ended);
  if (outcome.kind === 'failed') throw outcome.cause;
  return outcome.reply as T;
}

/** Escapes the special characters of a prefix, which is not a pattern. */
function escaped(prefix: string): string {
  return prefix.replace(/[\\*?[\]]/g, '\\$&');
}
