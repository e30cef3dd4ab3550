import type { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import type { SeededRandom } from '../seeded-random.js';
import type { LatencyProxy } from './latency-proxy.js';

export const STAGES = ['single', 'replicated', 'stepped-clock'] as const;
export type StageKind = (typeof STAGES)[number];

/** The Redis servers of a run, and the ways to them. */
export interface Stage {
  readonly kind: StageKind;
  /** Where a worker finds Redis: some know the server itself, some only the proxy. */
  urlFor(random: SeededRandom): string;
  /** The server that takes writes now. */
  readonly server: RedisServer;
  /** A connection to that server. */
  readonly admin: Redis;
  readonly proxy: LatencyProxy;
  stop(): Promise<void>;
}
