const QUEUE = ':queue';

/** The names of keys in Redis. All keys of one lock share its hash tag, except for a fence that all locks share. */
export class RedisKeys {
  readonly prefix: string;
  #areApart: boolean;

  /** @param areApart whether keys with different hash tags may be on different servers */
  constructor(prefix: string, areApart = false) {
    this.prefix = prefix;
    this.#areApart = areApart;
  }

  /** Whether a command may only have keys of one hash tag, so that each lock has a fence of its own. */
  get areApart(): boolean {
    return this.#areApart;
  }

  /** Called when something in front of several servers has refused a command with keys of several hash tags. */
  setApart(): void {
    this.#areApart = true;
  }

  /** Those that the scripts for a key are given. */
  of(key: string): readonly [lock: string, second: string, ...others: string[]] {
    const lock = this.lockOf(key);
    return [
      lock,
      `${lock}${QUEUE}`,
      this.#areApart ? `${lock}:fence` : this.sharedFence,
      `${lock}:lapsed`,
    ];
  }

  lockOf(key: string): string {
    return `${this.prefix}{${key}}`;
  }

  /** Those that the probe is given, for a key that nobody else uses. */
  probedOf(key: string): readonly [lock: string, ...others: string[]] {
    const [lock, queue] = this.of(key);
    return [lock, queue];
  }

  /** The commands that the Redis user needs for the types of these keys. */
  get commands(): string {
    return 'zadd zrem zscore zcard zrange zrevrange';
  }

  /** The keys and channels that the Redis user needs, in the syntax of ACL SETUSER. */
  rights(connectionPrefix: string): string {
    return `~${connectionPrefix}${this.prefix}* &${this.inboxPrefix}*`;
  }

  get sharedFence(): string {
    return `${this.prefix}fence`;
  }

  /** The key with the stalls that the processes have observed. */
  get stalls(): string {
    return `${this.prefix}stalls`;
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

  /** The key of the lock whose queue has this name in Redis; undefined for other names. */
  keyOfQueue(redisKey: string): string | undefined {
    return redisKey.endsWith(QUEUE) ? this.keyOf(redisKey.slice(0, -QUEUE.length)) : undefined;
  }
}
