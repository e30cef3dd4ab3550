import type { LockWait } from '../lock-info.js';
import { onOneLine, quotedList } from '../runtime/quoted.js';

/** @param ring as in `LockDeadlockError` */
export function deadlockMessage(key: string, ring: readonly LockWait[]): string {
  const why =
    ring.length === 1
      ? 'the call holds it itself, and does not join because of reentrant: false, so leave that out'
      : `calls wait for each other: ${ringOf(ring)}. This was the youngest wait: let this error end the outer call, which frees the others, and try it again; to prevent it, take these locks in one call, or nest them in the same order everywhere`;
  return `Lock '${key}' was not acquired, because the wait would never have ended: ${why}`;
}

/** Each wait of a ring, in one sentence. */
export function ringOf(ring: readonly LockWait[]): string {
  return ring.map(waitOf).join('; ');
}

function waitOf({ label, pid, host, holds, key }: LockWait): string {
  const call = label === undefined ? 'a call' : `'${onOneLine(label)}'`;
  return `${call} in process ${pid} on ${onOneLine(host)} holds ${quotedList(holds)} and waits for '${key}'`;
}
