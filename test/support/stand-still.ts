/**
 * Blocks the whole process without using the processor, as if it were stopped. When it is called in the callback of a
 * timer, Node then reads sockets before it fires further timers.
 */
export function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
