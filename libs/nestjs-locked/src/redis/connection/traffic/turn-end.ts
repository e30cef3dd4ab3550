/**
 * Calls back when the code that runs now and its microtasks have ended, before any socket is read. Node's
 * `process.nextTick`; test frameworks with fake timers replace that of the process.
 */
export const atTurnEnd = process.nextTick.bind(process);
