/** How many masters a Redis Cluster needs for a number of locks per second. Nothing but arithmetic. */
import { busiestShare } from './key-shares.mjs';

/** The specification of Redis Cluster recommends no more nodes than this. */
const MOST_NODES = 1_000;
const SMALLEST_CLUSTER = 3;

/**
 * @typedef {object} Costs microseconds of one core, as measured
 * @property {number} freeLockUs taking and releasing a lock that nobody else wants
 * @property {number} contendedLockUs the same, when it is handed over between processes, with its messages
 * @property {number} messagesPerContendedLock
 * @property {number} messageToItsMasterPerNodeUs what the publishing master needs to pass a message to one other node
 * @property {number} messageToOtherNodeUs what a node needs for a message that nobody listens to there
 */

/**
 * @typedef {object} Load
 * @property {number} rate holds per second, everywhere together
 * @property {number} contended the share of the locks, as the servers see them, that another process waits for
 * @property {number} replicas for each master
 * @property {number} headroom the share of a core that is kept free
 */

/**
 * How many masters there must be so that the busiest one stays within its headroom: 1 is a server without a cluster;
 * undefined if no number of masters is enough.
 *
 * @param {Load} load
 * @param {import('./key-shares.mjs').KeyShares} shares
 * @param {Costs} costs
 * @returns {number | undefined}
 */
export function mastersNeeded(load, shares, costs) {
  const most = Math.floor(MOST_NODES / (1 + load.replicas));
  for (let masters = 1; masters <= most; masters++) {
    if (masters > 1 && masters < SMALLEST_CLUSTER) continue;
    if (busiestCore(load, shares, costs, masters) <= 1 - load.headroom) return masters;
  }
  return undefined;
}

/** The share of its core that the busiest master needs. */
export function busiestCore({ rate, contended, replicas }, shares, costs, masters) {
  const own = rate * busiestShare(shares, masters);
  const everywhere = rate * shares.upTo.at(-1);
  const locks = own * ((1 - contended) * costs.freeLockUs + contended * costs.contendedLockUs);
  if (masters === 1) return locks / 1e6;

  const messagesPerLock = contended * costs.messagesPerContendedLock;
  const otherNodes = masters * (1 + replicas) - 1;
  const sent = own * messagesPerLock * otherNodes * costs.messageToItsMasterPerNodeUs;
  const received = (everywhere - own) * messagesPerLock * costs.messageToOtherNodeUs;
  return (locks + sent + received) / 1e6;
}
