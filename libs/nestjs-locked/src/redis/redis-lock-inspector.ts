import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { LockKeyError } from '../core/lock.errors.js';
import { quoted } from '../core/runtime/quoted.js';
import type { HolderQuestion } from '../core/store/holder-question.js';
import { processIdOf } from '../core/store/lease-token.js';
import type { LockInspector, LockRecord, ProcessRecord } from '../core/store/lock-inspector.js';
import { atMost } from '../core/time/at-most.js';
import type { Clock } from '../core/time/clock.js';
import type { CommandRunner, LockServers } from './connection/lock-servers.js';
import type { RedisConnection } from './connection/server/redis-client.js';
import { readEvictionPolicy } from './connection/server/server-info.js';
import type { RedisCommand } from './connection/traffic/redis-command.js';
import type { LockScripts } from './scripts/lock-scripts.js';
import type { RedisKeys } from './scripts/redis-keys.js';
import type { RedisScript } from './scripts/redis-script.js';
import { isReplyError } from './scripts/reply-error.js';
import { readInspectReply } from './scripts/script-replies.js';

export interface RedisLockInspectorOptions {
  readonly servers: Pick<LockServers, 'run' | 'each' | 'isReady'>;
  readonly clock: Clock;
  readonly keys: RedisKeys;
  readonly scripts: Pick<LockScripts, 'inspect' | 'revoke' | 'askHolder' | 'answerQuestion'>;
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

/** Who holds what, according to Redis. No lock depends on it. */
export class RedisLockInspector implements LockInspector {
  readonly #options: RedisLockInspectorOptions;
  #cancelRefresh: () => void = () => {};
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

  async inspect(key: string): Promise<LockRecord | undefined> {
    const { keys, scripts, processId } = this.#options;
    const redisKeys = (): readonly string[] => keys.of(key).slice(0, 2);
    const reply = await this.#runScript(scripts.inspect, redisKeys, [processId], key);
    const found = readInspectReply(reply);
    if (found === undefined) return undefined;
    return { key, ...found, process: await this.#processWith(found.value, key) };
  }

  /**
   * Reads the entry of the process with this token, which another master of a cluster may have. While that is away or
   * silent, the record of the lock's master is shown without it.
   */
  async #processWith(token: string, key: string): Promise<ProcessRecord | undefined> {
    const { keys, servers, clock } = this.#options;
    const processId = processIdOf(token);
    if (processId === undefined) return undefined;
    const record = keys.processOf(processId);
    const reading = this.#run(`inspect '${key}'`, record, (redis) => redis.get(record));
    const limitMs = servers.isReady ? ENTRY_LIMIT_MS : ENTRY_LIMIT_AWAY_MS;
    const text = await atMost(
      clock,
      limitMs,
      reading.catch(() => null),
    );
    return text === undefined || text === null ? undefined : processRecord(text);
  }

  /** @throws LockKeyError if the pattern begins with the prefix, because it would match no key that is meant */
  async *list(pattern: string): AsyncIterable<string> {
    const { prefix } = this.#options.keys;
    if (prefix !== '' && pattern.startsWith(prefix)) {
      const withoutPrefix = pattern.slice(prefix.length) || '*';
      const escapedOnce = `[${prefix[0]}]${pattern.slice(1)}`;
      throw new LockKeyError(
        `Cannot list the locks of ${quoted(pattern)}: it begins with the keyPrefix, which keys do not have here; write ${quoted(withoutPrefix)}, or ${quoted(escapedOnce)} if your keys begin like that, too`,
      );
    }
    const seen = new Set<string>();
    for (const server of await this.#options.servers.each()) {
      for await (const key of this.#listOn(server, pattern)) {
        if (seen.has(key)) continue; // SCAN may return a key twice, and a key may move to another server meanwhile
        seen.add(key);
        yield key;
      }
    }
  }

  async *#listOn(server: CommandRunner, pattern: string): AsyncIterable<string> {
    const { keys, connectionPrefix } = this.#options;
    // ioredis adds its prefix to the keys of commands, but not to a pattern, and does not remove it from results.
    const match = `${escaped(connectionPrefix + keys.prefix)}{${pattern}}`;
    let cursor = '0';
    do {
      const from = cursor;
      const send = (redis: RedisConnection): Promise<[string, string[]]> =>
        redis.scan(from, 'MATCH', match, 'COUNT', SCAN_SIZE);
      const [next, page] = await runOn(server, { action: 'list locks', keys: [], send });
      for (const found of page) {
        const key = keys.keyOf(found.slice(connectionPrefix.length));
        if (key !== undefined) yield key;
      }
      cursor = next;
    } while (cursor !== '0');
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

  async revoke(key: string): Promise<Pick<LockRecord, 'value' | 'process'> | undefined> {
    const { keys, scripts } = this.#options;
    // A second execution could take the lock from somebody who acquired it in between.
    const redisKeys = (): readonly string[] => keys.of(key);
    const value = await this.#runScript(scripts.revoke, redisKeys, [randomUUID()], key, false);
    if (typeof value !== 'string') return undefined;
    return { value, process: await this.#processWith(value, key) };
  }

  async ask(key: string, id: string): Promise<string | undefined> {
    const { keys, scripts, processId } = this.#options;
    const args = [processId, id];
    const token = await this.#runScript(scripts.askHolder, () => keys.of(key), args, key);
    return typeof token === 'string' ? token : undefined;
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

type CommandOf<T> = RedisCommand & {
  send(redis: RedisConnection, whole: boolean): Promise<T>;
};

/** @throws LockStoreError */
async function runOn<T>(server: CommandRunner, command: CommandOf<T>): Promise<T> {
  const outcome = await server.run(command, (ended) => ended);
  if (outcome.kind === 'failed') throw outcome.cause;
  return outcome.reply as T;
}

function processRecord(text: string): ProcessRecord {
  const { host, pid } = JSON.parse(text) as { host: string; pid: number };
  return { host, pid };
}

/** Escapes the special characters of a prefix, which is not a pattern. */
function escaped(prefix: string): string {
  return prefix.replace(/[\\*?[\]]/g, '\\$&');
}
