import { ContextVariable } from '../../core/context-variable.js';
import { inContextOf, type Ticket } from './claim-tickets.js';
import type { TransactionScope } from './transaction-scope.js';

const HOOKS = new ContextVariable<HookContext>();
const CONTEXTS = new WeakMap<TransactionScope, HookContext>();

/**
 * The context in which one transaction is opened and ended, and in which ORMs run its hooks. Hooks are not part of the
 * body, but the transaction waits for them: a second transaction opened in a hook must not wait for the first.
 */
export class HookContext {
  readonly #tickets: readonly Ticket[];
  /** Ended contexts are not kept, because transactions may start one another endlessly. */
  readonly #outer: HookContext | undefined = HookContext.#openHere();
  #scope: TransactionScope | undefined;
  #isOver = false;

  /** @param tickets the transaction's tickets, unless its context already has them */
  constructor(tickets: readonly Ticket[] = []) {
    this.#tickets = tickets;
  }

  /** The transactions whose hooks may run here, innermost first. */
  static scopesHere(): readonly TransactionScope[] {
    const scopes: TransactionScope[] = [];
    for (let context = HookContext.#openHere(); context !== undefined; context = context.#outer) {
      if (context.#scope !== undefined) scopes.push(context.#scope);
    }
    return scopes;
  }

  static #openHere(): HookContext | undefined {
    let context = HOOKS.get();
    while (context !== undefined && context.#isOver) context = context.#outer;
    return context;
  }

  run<R>(work: () => R): R {
    return inContextOf(this.#tickets, () => HOOKS.run(this, work));
  }

  /** @returns the scope of its transaction, now open */
  opened(scope: TransactionScope): TransactionScope {
    this.#scope = scope;
    this.#isOver = false; // a driver may repeat it
    CONTEXTS.set(scope, this);
    scope.atEnd(() => this.end());
    return scope;
  }

  /** Drops everything, because code started in this context may keep it for ever. */
  end(): void {
    this.#isOver = true;
    this.#scope = undefined;
  }
}

/** Runs hooks of a manually driven transaction while it is open. */
export function runHooks<R>(scope: TransactionScope | undefined, hooks: () => R): R {
  const context = scope?.isOpen === true ? CONTEXTS.get(scope) : undefined;
  return context === undefined ? hooks() : context.run(hooks);
}
