/** The one of Node: frameworks that test with a time of their own replace the global function. */
export const { setImmediate: atNextTurn } = globalThis;

/** Lets everything be read that has arrived on the connections of this process by now. It waits for nothing else. */
export function readArrived(): Promise<void> {
  return new Promise((resolve) => atNextTurn(resolve));
}
