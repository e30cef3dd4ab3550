import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * Runs a function outside the async context of any request.
 *
 * A timer or reply handler runs in the async context of the code that set it: that of one request, although it mostly
 * concerns another. Code that reads the context (an abort listener, a logger, a lock request, an open transaction)
 * would find the wrong one. So every call that enters the engine leaves its context here; code that awaits the call's
 * promise continues in the call's own context.
 */
export const inNeutralContext: <R>(work: () => R) => R = AsyncLocalStorage.snapshot();
