import { evictionWarning, type LockHealth, type RenewalWarning } from '../core/lock-health.js';

/** What may cost locks although Redis answers. It is no reason to take the instance out of service. */
export interface LockHealthWarning {
  /**
   * - `eviction`: Redis may evict locks when its memory is full
   * - `node-away`: some nodes of the quorum cannot be used, although enough of the others can
   * - `renewed-late`: a renewal was sent late, because this process was blocked
   * - `renewal-unknown`: a renewal was refused or not answered
   *
   * Of the last two, the latest within the last minute.
   */
  readonly type: 'eviction' | 'node-away' | 'renewed-late' | 'renewal-unknown';
  /** For people. It contains no key. */
  readonly message: string;
}

/** The details of an indicator that is up. */
export interface LockHealthDetails extends Record<string, unknown> {
  /** How long Redis took to answer, in milliseconds. */
  readonly pingMs: number;
  /** Empty if there are none. */
  readonly warnings: readonly LockHealthWarning[];
}

export function detailsOf(health: LockHealth): LockHealthDetails {
  const { pingMs, evictionPolicy, nodesAway, renewals } = health;
  return {
    pingMs: Math.round(pingMs * 10) / 10,
    warnings: [
      ...(evictionPolicy === undefined
        ? []
        : [{ type: 'eviction' as const, message: evictionWarning(evictionPolicy) }]),
      ...(nodesAway.length === 0
        ? []
        : [{ type: 'node-away' as const, message: awayMessage(nodesAway.length) }]),
      ...renewals.map((event) => ({ type: event.type, message: messageOf(event) })),
    ],
  };
}

/** Without their addresses. */
function awayMessage(count: number): string {
  const nodes = count === 1 ? 'A node' : `${count} nodes`;
  return `${nodes} of the quorum cannot be used; the log names ${count === 1 ? 'it' : 'them'}`;
}

/** Without the key, and without the cause, whose message may name it: the answer to a health check may be public. */
function messageOf(event: RenewalWarning): string {
  const remaining = `with ${Math.round(event.remainingMs)} ms left`;
  switch (event.type) {
    case 'renewed-late':
      return `Within the last minute, a lease was renewed ${Math.round(event.lateMs)} ms late, ${remaining}: the event loop of this process was blocked, or the machine was suspended`;
    case 'renewal-unknown':
      return `Within the last minute, a lease could not be renewed at once, ${remaining}: Redis did not answer, or refused it; the log has the reason`;
  }
}
