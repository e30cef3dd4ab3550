import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { processIdOf } from '../core/store/lease-token.js';
import type { LockDirectory, LockRecord } from '../core/store/lock-directory.js';
import type { Clock } from '../core/time/clock.js';
import type { CommandConnection } from './connection/command-connection.js';
import type { RedisConnection } from './connection/redis-client.js';
import type { LockScripts } from './scripts/lock-scripts.js';
import type { RedisKeys } from './scripts/redis-keys.js';
import type { RedisScript } from './scripts/redis-script.js';
import { readInspectReply } from './scripts/script-replies.js';

export interface RedisLockDirectoryOptions {
  readonly commands: CommandConnection;
  readonly clock: Clock;
  readonly keys: RedisKeys;
  readonly scripts: LockScripts;
  readonly processId: string;
  /** The prefix that the connection itself puts before the keys of its commands. */
  readonly connectionPrefix: string;
}

/** How long labels and the entries of processes are kept. A process writes its entry again before that time is over. */
const KEPT_MS = 3_600_000;

const SCAN_SIZE = 500;

/** Who holds what, according to Redis. No lock depends on it. */
export class RedisLockDirectory implements LockDirectory {
  readonly #options: RedisLockDirectoryOptions;
  #cancelRefresh: () => void = () => {};
  #isPresent = false;
  #hasLeft = false;

  constructor(options: RedisLockDirectoryOptions) {
    this.#options = options;
  }

  /** Introduces this process. */
  async enter(): Promise<void> {
    this.#hasLeft = false;
    await this.present();
  }

  /** Writes which process this is, now and each time before the entry expires. */
  async present(): Promise<void> {
    if (this.#hasLeft) return; // a new connection was made while the locks were being closed
    const { clock, keys, processId } = this.#options;
    this.#cancelRefresh();
    this.#cancelRefresh = clock.after(KEPT_MS / 2, () => void this.present().catch(() => {}));
    this.#isPresent = true;
    const self = JSON.stringify({ host: hostname(), pid: process.pid });
    await this.#run('introduce this process', (redis) =>
      redis.set(keys.processOf(processId), self, 'PX', KEPT_MS),
    );
  }

  async leave(): Promise<void> {
    this.#hasLeft = true;
    if (!this.#isPresent) return;
    this.#isPresent = false;
    const { commands, keys, processId } = this.#options;
    this.#cancelRefresh();
    // If that is not possible now, the entry expires on its own.
    if (!commands.isReady) return;
    await this.#run('forget this process', (redis) => redis.del(keys.processOf(processId))).catch(
      () => {},
    );
  }

  async label(key: string, token: string, label: string): Promise<void> {
    const { keys } = this.#options;
    await this.#run(`label '${key}'`, (redis) =>
      redis.set(keys.labelOf(key), `${token} ${label}`, 'PX', KEPT_MS),
    );
  }

  async inspect(key: string): Promise<LockRecord | undefined> {
    const { keys, scripts } = this.#options;
    const all = [...keys.of(key), keys.labelOf(key)];
    const reply = await this.#runScript(scripts.inspect, all, [], key);
    const found = readInspectReply(reply);
    if (found === undefined) return undefined;
    const processId = processIdOf(found.value);
    const text =
      processId === undefined
        ? null
        : await this.#run(`inspect '${key}'`, (redis) => redis.get(keys.processOf(processId)));
    return { key, ...found, process: processRecord(text) };
  }

  async *list(pattern: string): AsyncIterable<string> {
    const { keys, connectionPrefix } = this.#options;
    // ioredis puts its own prefix before the keys of commands, but not before a pattern, and does not remove it from
    // results.
    const match = `${escaped(connectionPrefix + keys.prefix)}{${pattern}}`;
    const seen = new Set<string>();
    let cursor = '0';
    do {
      const from = cursor;
      const [next, page] = await this.#run('list locks', (redis) =>
        redis.scan(from, 'MATCH', match, 'COUNT', SCAN_SIZE),
      );
      for (const found of page) {
        const key = keys.keyOf(found.slice(connectionPrefix.length));
        if (key === undefined || seen.has(key)) continue;
        seen.add(key); // SCAN may give a key twice
        yield key;
      }
      cursor = next;
    } while (cursor !== '0');
  }

  async ping(): Promise<void> {
    await this.#run('reach Redis', (redis) => redis.ping());
  }

  async revoke(key: string): Promise<string | undefined> {
    const { keys, scripts } = this.#options;
    // If it were sent twice, it could take the lock from somebody who acquired it in between.
    const value = await this.#runScript(scripts.revoke, keys.of(key), [randomUUID()], key, false);
    return typeof value === 'string' ? value : undefined;
  }

  #runScript(
    script: RedisScript,
    redisKeys: readonly string[],
    args: readonly (string | number)[],
    key: string,
    isRepeatable = true,
  ): Promise<unknown> {
    return this.#run<unknown>(
      `${script.name} '${key}'`,
      (redis, whole) => script.send(redis, redisKeys, args, whole),
      isRepeatable,
    );
  }

  /** @throws LockStoreError */
  async #run<T>(
    action: string,
    send: (redis: RedisConnection, whole: boolean) => Promise<T>,
    isRepeatable = true,
  ): Promise<T> {
    const command = { action, keys: [], send, isRepeatable };
    const outcome = await this.#options.commands.run(command, (ended) => ended);
    if (outcome.kind === 'failed') throw outcome.cause;
    return outcome.reply as T;
  }
}

function processRecord(text: string | null): LockRecord['process'] {
  if (text === null) return undefined;
  const { host, pid } = JSON.parse(text) as { host: string; pid: number };
  return { host, pid };
}

/** A prefix is not a pattern, so its special characters are escaped. */
function escaped(prefix: string): string {
  return prefix.replace(/[\\*?[\]]/g, '\\$&');
}
