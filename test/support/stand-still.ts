/**
 * The whole process stands still: nothing runs in it meanwhile, and it uses no processor, as if it were stopped. Right
 * after the callback of a timer, it lets sockets be read before the next timers fire.
 */
export function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
