/** For a reader: whole milliseconds, and seconds from one second. */
export declare function milliseconds(ms: number): string;
//# sourceMappingURL=markup.d.ts.map