/**
 * How far Redis' clock may be set back, or be behind on a replica that takes over, without a fencing number being given
 * out twice, in milliseconds: a number is kept for so long after the clock has passed it (docs/adr/0011).
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
