import type { LockDeadlockError } from '../lock.errors.js';
import type { Hold } from '../queue/hold.js';
import type { WatchedWait } from '../queue/waiting-call.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import type { Scheduled } from '../time/scheduler.js';

/** Receives the events of a wait. */
export interface HoldingWaitUser {
  begins(wait: HoldingWait): void;
  /** The wait has lasted for some time. */
  isDue(wait: HoldingWait): void;
  ends(wait: HoldingWait): void;
}

/** A call that holds locks, or is inside calls that do, and waits for another lock. */
export class HoldingWait implements WatchedWait, Scheduled {
  scheduled: Scheduled['scheduled'];
  readonly id: string;
  readonly key: string;
  readonly options: ResolvedLockOptions;
  readonly holds: readonly Hold[];
  /** When it began, on the wall clock; set before anybody sees it. */
  since = 0;
  readonly #user: HoldingWaitUser;
  #giveUp: ((error: LockDeadlockError) => boolean) | undefined;

  constructor(
    id: string,
    key: string,
    options: ResolvedLockOptions,
    holds: readonly Hold[],
    user: HoldingWaitUser,
  ) {
    this.id = id;
    this.key = key;
    this.options = options;
    this.holds = holds;
    this.#user = user;
  }

  get isOver(): boolean {
    return this.#giveUp === undefined;
  }

  begins(giveUp: (error: LockDeadlockError) => boolean): void {
    this.#giveUp = giveUp;
    this.#user.begins(this);
  }

  ends(): void {
    this.#giveUp = undefined;
    this.#user.ends(this);
  }

  onDue(): void {
    this.#user.isDue(this);
  }

  /** @returns whether the wait was still going on, and has ended with this error */
  giveUp(error: LockDeadlockError): boolean {
    return this.#giveUp?.(error) ?? false;
  }
}
