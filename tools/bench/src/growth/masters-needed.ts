/** How many masters a Redis Cluster needs for a number of locks per second. Nothing but arithmetic. */
import { busiestShare, type KeyShares } from './key-shares.js';

/** The specification of Redis Cluster recommends no more nodes than this. */
const MOST_NODES = 1_000;
const SMALLEST_CLUSTER = 3;

/** Microseconds of one core, as measured. */
export interface Costs {
  /** Taking and releasing a lock that nobody else wants. */
  readonly freeLockUs: number;
  /** The same, when it is handed over between processes, with its messages. */
  readonly contendedLockUs: number;
  readonly messagesPerContendedLock: number;
  /** What the publishing master needs to pass a message to one other node. */
  readonly messageToItsMasterPerNodeUs: number;
  /** What a node needs for a message that nobody listens to there. */
  readonly messageToOtherNodeUs: number;
}

export interface Load {
  /** Holds per second, everywhere together. */
  readonly rate: number;
  /** The share of the locks, as the servers see them, that another process waits for. */
  readonly contended: number;
  /** For each master. */
  readonly replicas: number;
  /** The share of a core that is kept free. */
  readonly headroom: number;
}

/**
 * How many masters there must be so that the busiest one stays within its headroom: 1 is a server without a cluster;
 * undefined if no number of masters is enough.
 */
export function mastersNeeded(load: Load, shares: KeyShares, costs: Costs): number | undefined {
  const most = Math.floor(MOST_NODES / (1 + load.replicas));
  for (let masters = 1; masters <= most; masters += 1) {
    if (masters > 1 && masters < SMALLEST_CLUSTER) continue;
    if (busiestCore(load, shares, costs, masters) <= 1 - load.headroom) return masters;
  }
  return undefined;
}

/** The share of its core that the busiest master needs. */
export function busiestCore(load: Load, shares: KeyShares, costs: Costs, masters: number): number {
  const { rate, contended, replicas } = load;
  const own = rate * busiestShare(shares, masters);
  const everywhere = rate * (shares.upTo.at(-1) ?? NaN);
  const locks = own * ((1 - contended) * costs.freeLockUs + contended * costs.contendedLockUs);
  if (masters === 1) return locks / 1e6;

  const messagesPerLock = contended * costs.messagesPerContendedLock;
  const otherNodes = masters * (1 + replicas) - 1;
  const sent = own * messagesPerLock * otherNodes * costs.messageToItsMasterPerNodeUs;
  const received = (everywhere - own) * messagesPerLock * costs.messageToOtherNodeUs;
  return (locks + sent + received) / 1e6;
}
