/** Milliseconds of CLOCK_MONOTONIC: on Linux one clock for all processes of the machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}
