import { AsyncLocalStorage } from 'node:async_hooks';
import { type EventKind, monotonicMs } from './events.js';
import type { FromWorker, Order, Point } from './messages.js';

type Phase = 'idle' | 'asking' | 'holding' | 'returning';

/** The purchase to which the code that runs now belongs. */
export const currentPurchase = new AsyncLocalStorage<Purchase>();

/** Not enough pieces are left. That is how a purchase ends well without a sale. */
export class SoldOut extends Error {
  override readonly name = 'SoldOut';
}

/**
 * The purchases of one caller. This writes down what happens, and stops at the points where an accident is to happen.
 * It is not part of the lock under test.
 */
export class Purchase {
  phase: Phase = 'idle';
  isGoingOn = false;
  /** Whether the caller believes that it holds the lock. The locks of the articles cannot be asked. */
  believes: () => boolean = () => false;
  /** For how long the lock says that it is held. */
  remainingMs: () => number = () => 0;
  readonly #gates = new Map<Point, { readonly passed: Promise<void>; open(): void }>();

  constructor(
    readonly product: string,
    private readonly order: Order,
    readonly workMs: number,
    private readonly send: (message: FromWorker) => void,
  ) {
    for (const point of order.stopAt) this.#gates.set(point, gate());
  }

  get quantity(): number {
    return this.order.quantity;
  }

  get key(): string {
    return `lock:${this.product}`;
  }

  note(kind: EventKind, text?: string, fence?: number): void {
    const leftMs = this.phase === 'holding' ? this.remainingMs() : 0;
    this.send({
      say: 'event',
      event: {
        at: monotonicMs(),
        lane: this.order.lane,
        kind,
        ...(text !== undefined && { text }),
        ...(fence !== undefined && { fence }),
        ...(leftMs > 0 && { leftMs }),
      },
    });
  }

  /** Begins to ask for the lock. */
  waits(): void {
    this.phase = 'asking';
    this.note('wait');
  }

  /** The lock said yes. */
  holds(fence?: number): void {
    this.phase = 'holding';
    this.note('hold', undefined, fence);
  }

  /** From now on, it touches nothing that the lock protects. */
  releases(): void {
    this.note('release');
    this.phase = 'returning';
  }

  stopsAt(point: Point): boolean {
    return this.#gates.has(point);
  }

  /** Waits for the runner to go on, if the runner wanted this caller to stop here. */
  async reach(point: Point): Promise<void> {
    const closed = this.#gates.get(point);
    if (closed === undefined) return;
    this.send({ say: 'at', lane: this.order.lane, point });
    await closed.passed;
    if (this.phase === 'holding' && this.believes()) this.note('believes');
  }

  go(point: Point): void {
    this.#gates.get(point)?.open();
    this.#gates.delete(point);
  }

  goOn(): void {
    this.isGoingOn = true;
    for (const point of [...this.#gates.keys()]) this.go(point);
  }
}

function gate(): { passed: Promise<void>; open(): void } {
  let open = (): void => {};
  const passed = new Promise<void>((resolve) => (open = resolve));
  return { passed, open };
}
