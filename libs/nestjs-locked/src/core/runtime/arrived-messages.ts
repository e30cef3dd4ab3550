/** Lets everything be read that has arrived on the connections of this process by now. It waits for nothing else. */
export function readArrived(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
