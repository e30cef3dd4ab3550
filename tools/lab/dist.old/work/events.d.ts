/** What a process wrote down about one caller. Times are milliseconds of the machine's monotonic clock. */
export interface LabEvent {
    readonly at: number;
    /** The caller, for instance `A` or `2.4`: caller 4 of process 2. */
    readonly lane: string;
    readonly kind: EventKind;
    readonly text?: string;
}
export type EventKind = 
/** Begins to wait for the lock. */
'wait'
/** The lock said yes. */
 | 'hold'
/** Will not touch the data any more, and is about to release the lock. */
 | 'release' | 'begin' | 'read' | 'write'
/** COMMIT is being sent. */
 | 'commit' | 'committed' | 'rolled back'
/** The lock told its holder that it is lost. */
 | 'told'
/** From here on, the lock would report its loss if asked: the end of the lease by the holder's own clock. */
 | 'valid until'
/** Refused by the lock or the database with an error that says why. */
 | 'refused'
/** Ended with an error that nobody intended. */
 | 'failed' | 'sold' | 'sold out'
/** The version that was read is gone, so the purchase starts again. */
 | 'retry'
/** A Redis command and its reply. */
 | 'command' | 'killed' | 'paused' | 'resumed' | 'mark';
/** CLOCK_MONOTONIC of Linux, which is one clock for all processes of the machine. */
export declare function monotonicMs(): number;
//# sourceMappingURL=events.d.ts.map