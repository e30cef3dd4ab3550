/** The names of keys in Redis. All keys of one lock share its hash tag. */
export class RedisKeys {
  readonly prefix: string;

  constructor(prefix: string) {
    this.prefix = prefix;
  }

  of(key: string): [lock: string, queue: string, fence: string, lapsed: string] {
    const lock = `${this.prefix}{${key}}`;
    return [lock, `${lock}:queue`, `${lock}:fence`, `${lock}:lapsed`];
  }

  /** The key with the identity of a process. */
  processOf(processId: string): string {
    return `${this.prefix}process:${processId}`;
  }

  get inboxPrefix(): string {
    return `${this.prefix}inbox:`;
  }

  /** The key of the lock with this name in Redis; undefined for other names. */
  keyOf(redisKey: string): string | undefined {
    const isLock = redisKey.startsWith(`${this.prefix}{`) && redisKey.endsWith('}');
    return isLock ? redisKey.slice(this.prefix.length + 1, -1) : undefined;
  }
}
