import { inNeutralContext } from '../../core/runtime/neutral-context.js';
import { type CancelTimer, systemClock } from '../../core/time/clock.js';
import { AFTERMATH_MS } from './transaction-run.js';
import type { TransactionScope } from './transaction-scope.js';

/**
 * A transaction, as the async context of its body keeps it. Whatever was begun there, such as a timer, may keep it for
 * ever, and the next transaction as well, so it is emptied as soon as the transaction does not matter any more.
 */
export class ScopeHere {
  /** The one around it. */
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

  /** The innermost one that matters. */
  get innermost(): ScopeHere | undefined {
    return this.#scope === undefined ? this.#outer?.innermost : this;
  }

  /** For a while, code that continues in a transaction that has failed, or was given up, is refused. */
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

/** The first that is looked for, from this one outwards. */
export function outwards(
  scope: TransactionScope | undefined,
  isIt: (scope: TransactionScope) => boolean,
): TransactionScope | undefined {
  let found = scope;
  while (found !== undefined && !isIt(found)) found = found.outer;
  return found;
}
