import { AsyncLocalStorage } from 'node:async_hooks';
import { inContextOf, type Ticket } from './claim-tickets.js';
import type { TransactionScope } from './transaction-scope.js';

const HOOKS = new AsyncLocalStorage<HookContext>();
const CONTEXTS = new WeakMap<TransactionScope, HookContext>();

/**
 * The context in which one transaction is opened and ended, and in which ORMs run its hooks. They are no part of its
 * body, but it waits for them: a second transaction that they open must not wait for it.
 */
export class HookContext {
  readonly #tickets: readonly Ticket[];
  /** Those that have ended are not kept: a transaction may begin the next one, without an end. */
  readonly #outer: HookContext | undefined = HookContext.#openHere();
  #scope: TransactionScope | undefined;
  #isOver = false;

  /** @param tickets of the transaction, unless its context has them already */
  constructor(tickets: readonly Ticket[] = []) {
    this.#tickets = tickets;
  }

  /** The transactions whose hooks may run here, from the innermost one. */
  static scopesHere(): readonly TransactionScope[] {
    const scopes: TransactionScope[] = [];
    for (let context = HookContext.#openHere(); context !== undefined; context = context.#outer) {
      if (context.#scope !== undefined) scopes.push(context.#scope);
    }
    return scopes;
  }

  static #openHere(): HookContext | undefined {
    let context = HOOKS.getStore();
    while (context !== undefined && context.#isOver) context = context.#outer;
    return context;
  }

  run<R>(work: () => R): R {
    return inContextOf(this.#tickets, () => HOOKS.run(this, work));
  }

  /** @returns the scope of its transaction, which is open now */
  opened(scope: TransactionScope): TransactionScope {
    this.#scope = scope;
    this.#isOver = false; // a driver may repeat it
    CONTEXTS.set(scope, this);
    scope.atEnd(() => this.end());
    return scope;
  }

  /** What was begun in this context keeps it, and is to keep nothing else. */
  end(): void {
    this.#isOver = true;
    this.#scope = undefined;
  }
}

/** Runs hooks of a transaction that is opened by hand, as long as it is open. */
export function runHooks<R>(scope: TransactionScope | undefined, hooks: () => R): R {
  const context = scope?.isOpen === true ? CONTEXTS.get(scope) : undefined;
  return context === undefined ? hooks() : context.run(hooks);
}
