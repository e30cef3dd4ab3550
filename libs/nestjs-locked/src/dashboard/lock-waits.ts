import { LOCK_RUNNER } from '../core/engine/lock-runner.js';
import type { LockService } from '../nest/lock.service.js';

/** A call that holds keys and waits for another one. */
export interface LockWait {
  readonly processId: string;
  readonly host: string | undefined;
  readonly pid: number | undefined;
  readonly label: string | undefined;
  /** The key that it wants. */
  readonly key: string;
  /** How long it has waited. */
  readonly sinceMs: number;
  /** The keys that it holds meanwhile. */
  readonly holds: readonly string[];
}

/** Asks for the calls that hold something and wait. */
export type AskForWaits = () => Promise<readonly LockWait[]>;

/**
 * Those of all processes if the lock service can ask for them, or else those of this process.
 * @param here asks this process
 */
export function waitsOf(locks: LockService, here: () => readonly LockWait[]): AskForWaits {
  const runner = locks[LOCK_RUNNER] as { waits?: AskForWaits };
  return async () => (runner.waits === undefined ? here() : runner.waits());
}
