/**
 * How long a fencing number is kept after Redis' clock has passed it, in milliseconds. As long as it is kept, or the
 * clock is ahead of it, the next number is larger; so the clock may be set back by so much, or be so much behind on a
 * replica that takes over, without a number being given out twice. Clocks are corrected by seconds; ten minutes cover
 * a virtual machine that was restored or moved. A number of 140 bytes for every key of ten minutes is what it costs.
 */
export const FENCE_KEEP_MS = 600_000;

/** Where things are in Redis. What belongs to one lock shares its hash tag. */
export class RedisKeys {
  readonly prefix: string;

  constructor(prefix: string) {
    this.prefix = prefix;
  }

  of(name: string): [lock: string, queue: string, fence: string, lapsed: string] {
    const lock = `${this.prefix}{${name}}`;
    return [lock, `${lock}:queue`, `${lock}:fence`, `${lock}:lapsed`];
  }

  labelOf(name: string): string {
    return `${this.prefix}{${name}}:label`;
  }

  /** What a process says of itself. */
  processOf(processId: string): string {
    return `${this.prefix}process:${processId}`;
  }

  get inboxPrefix(): string {
    return `${this.prefix}inbox:`;
  }

  /** The name of a lock, from its lock key; undefined for all other keys. */
  nameOf(key: string): string | undefined {
    const isLock = key.startsWith(`${this.prefix}{`) && key.endsWith('}');
    return isLock ? key.slice(this.prefix.length + 1, -1) : undefined;
  }
}
