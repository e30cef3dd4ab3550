import type { LockSurvey, SurveyedLock } from '../../core/store/lock-inspector.js';
import type { RedisConnection } from '../connection/server/redis-client.js';
import {
  pagesOn,
  RedisLockInspector,
  type RedisLockInspectorOptions,
  runOn,
} from '../redis-lock-inspector.js';
import type { RedissonScripts } from './redisson-scripts.js';

/** Who holds what, if locks have the names and values of Redisson: no prefix tells them from other keys. */
export class RedissonLockInspector extends RedisLockInspector {
  readonly #options: RedisLockInspectorOptions;

  constructor(options: RedisLockInspectorOptions) {
    super(options);
    this.#options = options;
  }

  override async *list(pattern: string): AsyncIterable<string> {
    const seen = new Set<string>();
    for await (const [key] of this.#found(pattern)) {
      if (!seen.has(key)) yield key; // SCAN may return a key twice
      seen.add(key);
    }
  }

  override survey(patterns: readonly string[], most: number): Promise<LockSurvey[]> {
    return Promise.all(patterns.map((pattern) => this.#survey(pattern, most)));
  }

  async #survey(pattern: string, most: number): Promise<LockSurvey> {
    const locks = new Map<string, SurveyedLock>();
    for await (const [key, value] of this.#found(pattern)) {
      if (locks.size === most && !locks.has(key)) return { locks, isPartial: true };
      locks.set(key, { value, waiters: 0, waitedMs: 0 });
    }
    return { locks, isPartial: false };
  }

  async *#found(pattern: string): AsyncIterable<[key: string, value: string]> {
    const { servers, scripts, connectionPrefix } = this.#options;
    for (const server of await servers.each()) {
      for await (const page of pagesOn(server, connectionPrefix, pattern)) {
        if (page.length === 0) continue;
        const send = (redis: RedisConnection, whole: boolean): Promise<unknown> =>
          (scripts as RedissonScripts).find.send(redis, page, [], whole);
        const reply = await runOn(server, { action: 'look at the locks', keys: [], send });
        const found = reply as (string | number)[];
        for (let i = 0; i < found.length; i += 2)
          yield [page[Number(found[i]) - 1] as string, String(found[i + 1])];
      }
    }
  }
}
