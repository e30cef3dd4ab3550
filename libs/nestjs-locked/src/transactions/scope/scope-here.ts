import { inNeutralContext } from '../../core/runtime/neutral-context.js';
import { type CancelTimer, systemClock } from '../../core/time/clock.js';
import { AFTERMATH_MS } from './transaction-run.js';
import type { TransactionScope } from './transaction-scope.js';

/**
 * A transaction as the async context of its body refers to it. A timer or later transaction started there may keep the
 * reference for ever, so it is emptied when the transaction no longer matters.
 */
export class ScopeHere {
  /** The enclosing transaction. */
  readonly #outer: ScopeHere | undefined;
  #scope: TransactionScope | undefined;

  constructor(scope: TransactionScope, outer: ScopeHere | undefined) {
    this.#scope = scope;
    this.#outer = outer;
    scope.atEnd(() => this.forget());
  }

  get scope(): TransactionScope | undefined {
    return this.#scope;
  }

  /** The innermost transaction that matters. */
  get innermost(): ScopeHere | undefined {
    return this.#scope === undefined ? this.#outer?.innermost : this;
  }

  /**
   * Empties the reference, but only after the time in which code left in a failed or abandoned transaction is refused.
   */
  forget(): void {
    if (this.#scope?.matters !== true) {
      this.#scope = undefined;
      return;
    }
    const here = new WeakRef(this);
    const later = (): CancelTimer => systemClock.after(AFTERMATH_MS, () => here.deref()?.forget());
    inNeutralContext(later).mayEnd?.(true);
  }
}

/** The first scope that satisfies the condition, from this one outwards. */
export function outwards(
  scope: TransactionScope | undefined,
  isIt: (scope: TransactionScope) => boolean,
): TransactionScope | undefined {
  let found = scope;
  while (found !== undefined && !isIt(found)) found = found.outer;
  return found;
}
