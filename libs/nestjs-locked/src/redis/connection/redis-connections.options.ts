import type { Clock } from '../../core/time/clock.js';
import type { RedisKeys } from '../scripts/redis-keys.js';
import type { RedisScript } from '../scripts/redis-script.js';
import type { RequiredReplicas } from './server/required-replicas.js';

export interface RedisConnectionsOptions {
  readonly clock: Clock;
  readonly keys: RedisKeys;
  readonly processId: string;
  /** Loaded into every server before any command. */
  readonly scripts: readonly RedisScript[];
  /** Proves that messages of scripts arrive in our inbox; one of `scripts`. */
  readonly probe: RedisScript;
  /** How long a command may take. */
  readonly timeLimitMs: number;
  /** The service's lease, from which the time limit follows. */
  readonly leaseMs: number;
  /** How often each connection is checked. */
  readonly pingEveryMs: number;
  /** Which replicas must have a lease before it counts. @default the master alone */
  readonly replicas?: RequiredReplicas | undefined;
}

/** Additional terms for a node of a Redis Cluster. */
export interface ClusterNodeTerms {
  /** `host:port` */
  readonly address: string;
  /** A key that this node has; undefined if it has none. */
  readonly someKey: () => string | undefined;
}
