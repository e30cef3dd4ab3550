/** Nanoseconds of CLOCK_MONOTONIC, which on Linux is one clock for all processes of the machine. */
export function monotonicNs(): number {
  return Number(process.hrtime.bigint());
}
