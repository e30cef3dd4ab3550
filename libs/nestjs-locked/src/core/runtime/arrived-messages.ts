/** The one of Node: frameworks that test with a time of their own replace the global function. */
export const { setImmediate: atNextTurn } = globalThis;

/**
 * Calls back when everything was read that has arrived on the connections of this process by now. Code that a socket
 * has called runs when the sockets of this turn have been looked at: what came meanwhile is read in the turn after it.
 */
export function afterReading(callback: () => void): void {
  atNextTurn(() => atNextTurn(callback));
}

/** Lets everything be read that has arrived on the connections of this process by now. It waits for nothing else. */
export function readArrived(): Promise<void> {
  return new Promise((resolve) => afterReading(resolve));
}
