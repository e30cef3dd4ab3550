import { AsyncLocalStorage } from 'node:async_hooks';
import { monotonicMs } from './events.js';
/** The purchase to which the code that runs now belongs. */
export const currentPurchase = new AsyncLocalStorage();
/** Not enough pieces are left. That is how a purchase ends well without a sale. */
export class SoldOut extends Error {
    name = 'SoldOut';
}
/**
 * The purchases of one caller. This writes down what happens, and stops at the points where an accident is to happen.
 * It is not part of the lock under test.
 */
export class Purchase {
    product;
    order;
    workMs;
    send;
    phase = 'idle';
    isGoingOn = false;
    /** Asks for how long the lock is certainly held, if it can be asked. The locks of the articles cannot. */
    asksLock;
    #gates = new Map();
    constructor(product, order, workMs, send) {
        this.product = product;
        this.order = order;
        this.workMs = workMs;
        this.send = send;
        for (const point of order.stopAt)
            this.#gates.set(point, gate());
    }
    get quantity() {
        return this.order.quantity;
    }
    get key() {
        return `lock:${this.product}`;
    }
    note(kind, text) {
        const event = { at: monotonicMs(), lane: this.order.lane, kind };
        this.send({ say: 'event', event: text === undefined ? event : { ...event, text } });
    }
    /** Begins to ask for the lock. */
    waits() {
        this.phase = 'asking';
        this.note('wait');
    }
    /** The lock said yes. */
    holds() {
        this.phase = 'holding';
        this.note('hold');
    }
    /** From now on, it touches nothing that the lock protects. */
    releases() {
        this.phase = 'returning';
        this.note('release');
    }
    stopsAt(point) {
        return this.#gates.has(point);
    }
    /** Waits for the runner to go on, if the runner wanted this caller to stop here. */
    async reach(point) {
        const closed = this.#gates.get(point);
        if (closed === undefined)
            return;
        // This is noted now, because a process that is paused here cannot say afterwards until when its lock would have
        // said yes.
        const until = this.asksLock?.().until;
        if (until !== undefined)
            this.note('valid until', String(until));
        this.send({ say: 'at', lane: this.order.lane, point });
        await closed.passed;
    }
    go(point) {
        this.#gates.get(point)?.open();
        this.#gates.delete(point);
    }
    goOn() {
        this.isGoingOn = true;
        for (const point of [...this.#gates.keys()])
            this.go(point);
    }
}
function gate() {
    let open = () => { };
    const passed = new Promise((resolve) => (open = resolve));
    return { passed, open };
}
//# sourceMappingURL=purchase.js.map