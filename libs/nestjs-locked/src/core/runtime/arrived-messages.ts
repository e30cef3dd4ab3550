/** Node's `setImmediate`; test frameworks with fake timers replace the global function. */
export const { setImmediate: atNextTurn } = globalThis;

/**
 * Calls back when all data that has arrived on the connections of this process by now was read. Code called by a socket
 * runs after the sockets of this turn were polled: data that arrived since is read in the next turn.
 */
export function afterReading(callback: () => void): void {
  atNextTurn(() => atNextTurn(callback));
}

/**
 * Resolves when all data that has arrived on the connections of this process by now was read; it waits for nothing
 * else.
 */
export function readArrived(): Promise<void> {
  return new Promise((resolve) => afterReading(resolve));
}
