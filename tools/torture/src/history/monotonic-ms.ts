/** Milliseconds of CLOCK_MONOTONIC, which on Linux is one clock for all processes of the machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}
