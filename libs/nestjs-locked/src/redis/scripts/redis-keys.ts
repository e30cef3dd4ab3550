/** The names of things in Redis. All that belongs to one lock shares its hash tag. */
export class RedisKeys {
  readonly prefix: string;

  constructor(prefix: string) {
    this.prefix = prefix;
  }

  of(key: string): [lock: string, queue: string, fence: string, lapsed: string] {
    const lock = `${this.prefix}{${key}}`;
    return [lock, `${lock}:queue`, `${lock}:fence`, `${lock}:lapsed`];
  }

  labelOf(key: string): string {
    return `${this.prefix}{${key}}:label`;
  }

  /** Where a process says which one it is. */
  processOf(processId: string): string {
    return `${this.prefix}process:${processId}`;
  }

  get inboxPrefix(): string {
    return `${this.prefix}inbox:`;
  }

  /** The key of the lock that has this name in Redis; undefined for every other name. */
  keyOf(redisKey: string): string | undefined {
    const isLock = redisKey.startsWith(`${this.prefix}{`) && redisKey.endsWith('}');
    return isLock ? redisKey.slice(this.prefix.length + 1, -1) : undefined;
  }
}
