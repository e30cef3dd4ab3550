import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * Runs something in no request's async context.
 *
 * A timer, or the handler of a reply, runs in the async context of the code that armed it. Here that is some request,
 * and what the timer sets off mostly concerns another one. Code that looks into the context (an abort listener, a
 * logger, a lock that is asked for, an open transaction) would find a stranger's. So every call that enters the engine
 * steps out of its context here; what awaits the call's promise continues in the call's own context.
 */
export const inNeutralContext: <R>(work: () => R) => R = AsyncLocalStorage.snapshot();
