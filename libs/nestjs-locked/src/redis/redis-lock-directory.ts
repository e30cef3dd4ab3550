import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Clock } from '../core/clock.js';
import type { LockDirectory, LockRecord } from '../core/lock-directory.js';
import type { CommandConnection } from './command-connection.js';
import type { RedisConnection } from './redis-client.js';
import type { RedisKeys } from './redis-keys.js';
import type { RedisScript } from './redis-script.js';
import { isLeaseToken, readInspectReply } from './script-replies.js';
import { inspectScript } from './scripts/inspect.lua.js';
import { revokeScript } from './scripts/revoke.lua.js';

export interface RedisLockDirectoryOptions {
  readonly commands: CommandConnection;
  readonly clock: Clock;
  readonly keys: RedisKeys;
  readonly processId: string;
  /** What the connection puts before the keys of its commands. */
  readonly connectionPrefix: string;
}

/** Labels and what processes say of themselves are kept for so long; the latter are written again in time. */
const KEPT_MS = 3_600_000;

const SCAN_SIZE = 500;

/** Who holds what, as far as it is in Redis. Off the path of every lock. */
export class RedisLockDirectory implements LockDirectory {
  readonly #options: RedisLockDirectoryOptions;
  #cancelRefresh: () => void = () => {};
  #isPresent = false;
  #hasLeft = false;

  constructor(options: RedisLockDirectoryOptions) {
    this.#options = options;
  }

  /** Writes which process this is, now and again before it is forgotten. */
  async present(): Promise<void> {
    if (this.#hasLeft) return; // a connection was made anew while the locks were being closed
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
    // If that is not possible now, the entry ends by itself.
    if (!commands.isReady) return;
    await this.#run('forget this process', (redis) => redis.del(keys.processOf(processId))).catch(
      () => {},
    );
  }

  async label(name: string, token: string, label: string): Promise<void> {
    const { keys } = this.#options;
    await this.#run(`label '${name}'`, (redis) =>
      redis.set(keys.labelOf(name), `${token} ${label}`, 'PX', KEPT_MS),
    );
  }

  async inspect(name: string): Promise<LockRecord | undefined> {
    const { keys } = this.#options;
    const all = [...keys.of(name), keys.labelOf(name)];
    const reply = await this.#runScript(inspectScript, all, [], name);
    const found = readInspectReply(reply);
    if (found === undefined) return undefined;
    const text = isLeaseToken(found.value)
      ? await this.#run(`inspect '${name}'`, (redis) =>
          redis.get(keys.processOf(found.value.slice(0, 32))),
        )
      : null;
    return { name, ...found, process: processRecord(text) };
  }

  async *list(pattern: string): AsyncIterable<string> {
    const { keys, connectionPrefix } = this.#options;
    // ioredis puts its own prefix before the keys of commands, but not before a pattern, nor takes it off results.
    const match = `${escaped(connectionPrefix + keys.prefix)}{${pattern}}`;
    const seen = new Set<string>();
    let cursor = '0';
    do {
      const from = cursor;
      const [next, page] = await this.#run('list locks', (redis) =>
        redis.scan(from, 'MATCH', match, 'COUNT', SCAN_SIZE),
      );
      for (const key of page) {
        const name = keys.nameOf(key.slice(connectionPrefix.length));
        if (name === undefined || seen.has(name)) continue;
        seen.add(name); // SCAN may give a key twice
        yield name;
      }
      cursor = next;
    } while (cursor !== '0');
  }

  async revoke(name: string): Promise<boolean> {
    const { keys } = this.#options;
    const args = [keys.inboxPrefix, 0, 0, randomUUID()]; // grants nothing: no lengths are needed
    // Sent twice, it could take the lock from somebody who has got it in between.
    return Number(await this.#runScript(revokeScript, keys.of(name), args, name, false)) === 1;
  }

  #runScript(
    script: RedisScript,
    keys: readonly string[],
    args: readonly (string | number)[],
    name: string,
    isRepeatable = true,
  ): Promise<unknown> {
    return this.#run(
      `${script.name} '${name}'`,
      (redis, mayRepeat) => script.run(redis, keys, args, mayRepeat),
      isRepeatable,
    );
  }

  /** @throws LockStoreError */
  async #run<T>(
    action: string,
    send: (redis: RedisConnection, mayRepeat: () => Promise<boolean>) => Promise<T>,
    isRepeatable = true,
  ): Promise<T> {
    const outcome = await this.#options.commands.run({ action, names: [], send, isRepeatable });
    if (outcome.kind === 'failed') throw outcome.cause;
    return outcome.reply as T;
  }
}

function processRecord(text: string | null): LockRecord['process'] {
  if (text === null) return undefined;
  const { host, pid } = JSON.parse(text) as { host: string; pid: number };
  return { host, pid };
}

/** A prefix is meant literally. */
function escaped(prefix: string): string {
  return prefix.replace(/[\\*?[\]]/g, '\\$&');
}
