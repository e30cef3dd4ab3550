import { AsyncLocalStorage } from 'node:async_hooks';
import { type EventKind } from './events.js';
import type { FromWorker, Order, Point } from './messages.js';
type Phase = 'idle' | 'asking' | 'holding' | 'returning';
/** The purchase to which the code that runs now belongs. */
export declare const currentPurchase: AsyncLocalStorage<Purchase>;
/** Not enough pieces are left. That is how a purchase ends well without a sale. */
export declare class SoldOut extends Error {
    readonly name = "SoldOut";
}
/**
 * The purchases of one caller. This writes down what happens, and stops at the points where an accident is to happen.
 * It is not part of the lock under test.
 */
export declare class Purchase {
    #private;
    readonly product: string;
    private readonly order;
    readonly workMs: number;
    private readonly send;
    phase: Phase;
    isGoingOn: boolean;
    /** Asks for how long the lock is certainly held, if it can be asked. The locks of the articles cannot. */
    asksLock: (() => {
        readonly until: number;
    }) | undefined;
    constructor(product: string, order: Order, workMs: number, send: (message: FromWorker) => void);
    get quantity(): number;
    get key(): string;
    note(kind: EventKind, text?: string): void;
    /** Begins to ask for the lock. */
    waits(): void;
    /** The lock said yes. */
    holds(): void;
    /** From now on, it touches nothing that the lock protects. */
    releases(): void;
    stopsAt(point: Point): boolean;
    /** Waits for the runner to go on, if the runner wanted this caller to stop here. */
    reach(point: Point): Promise<void>;
    go(point: Point): void;
    goOn(): void;
}
export {};
//# sourceMappingURL=purchase.d.ts.map