/** For a reader: whole milliseconds, and seconds from one second. */
export function milliseconds(ms) {
    if (ms < 1_000)
        return `${Math.round(ms)} ms`;
    return `${(ms / 1_000).toFixed(2)} s`;
}
//# sourceMappingURL=markup.js.map