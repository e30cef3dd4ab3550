import { busyLocalHolder } from './busy-local-holder.js';
import { clocksApart } from './clocks-apart.js';
import { expiredBeforeRemoval } from './expired-before-removal.js';
import { failover } from './failover.js';
import { holderKilled } from './holder-killed.js';
import { holderPaused } from './holder-paused.js';
import { killedBetween } from './killed-between.js';
import { lockInTransaction } from './lock-in-transaction.js';
import { passedOnAfterLoss } from './passed-on-after-loss.js';
import { redisHangs } from './redis-hangs.js';
import { releasedBetween } from './released-between.js';
import { renewalStops } from './renewal-stops.js';
import { sale } from './sale.js';
import { threeProcesses } from './three-processes.js';
import { twoLook } from './two-look.js';
import { waiterKilled } from './waiter-killed.js';
import { workOutlivesLease } from './work-outlives-lease.js';
/** The sale, in which nothing is provoked, and then the accidents in the order of the stages that they break first. */
export const ACCIDENTS = [
    sale,
    twoLook,
    holderKilled,
    killedBetween,
    waiterKilled,
    clocksApart,
    threeProcesses,
    releasedBetween,
    expiredBeforeRemoval,
    workOutlivesLease,
    renewalStops,
    passedOnAfterLoss,
    busyLocalHolder,
    holderPaused,
    lockInTransaction,
    failover,
    redisHangs,
];
//# sourceMappingURL=index.js.map