/** CLOCK_MONOTONIC of Linux, which is one clock for all processes of the machine. */
export function monotonicMs() {
    return Number(process.hrtime.bigint() / 1000n) / 1_000;
}
//# sourceMappingURL=events.js.map