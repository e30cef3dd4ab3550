import type { EngineParts } from '../lease/engine-parts.js';
import type { LockStoreError } from '../lock.errors.js';
import { LinkedList } from '../runtime/linked-list.js';
import type { Hold } from './hold.js';
import type { WaitingCall } from './waiting-call.js';

/** The calls of one queue, in order of arrival, each with its timer. A call leaves when it has its answer. */
export class WaitingCalls implements Iterable<WaitingCall> {
  readonly #parts: EngineParts;
  readonly #calls = new LinkedList<WaitingCall>();
  /** The number of calls at the end of their wait. */
  #atEnd = 0;
  /** The calls whose wait is over, unless data that has arrived unread serves them. */
  readonly #overdue: WaitingCall[] = [];

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  [Symbol.iterator](): Iterator<WaitingCall> {
    return this.#calls[Symbol.iterator]();
  }

  get first(): WaitingCall | undefined {
    return this.#calls.first;
  }

  get size(): number {
    return this.#calls.size;
  }

  has(call: WaitingCall): boolean {
    return this.#calls.has(call);
  }

  /** How many wait for their turn. The others, and all single tries, end with the answer in flight. */
  get waiting(): number {
    return this.#calls.size - this.#atEnd;
  }

  add(call: WaitingCall): void {
    this.#calls.add(call);
    if (call.atEnd) this.#atEnd++;
    this.lookLater(call);
  }

  /** Called when the wait of the call is over; the answer in flight may still come. */
  startGrace(call: WaitingCall, now: number): void {
    call.startGrace(now);
    this.#atEnd++;
    this.lookLater(call);
  }

  lookLater(call: WaitingCall): void {
    this.#parts.scheduler.schedule(call, call.dueAt);
  }

  /** @param isOver called with a call that is still waiting after all data that has arrived was read */
  overdue(call: WaitingCall, isOver: (call: WaitingCall) => void): void {
    this.#overdue.push(call);
    if (this.#overdue.length > 1) return;
    // A grant or a reply may have arrived unread.
    this.#parts.loopTurn.afterReading(() => {
      for (const late of this.#overdue.splice(0)) if (this.#calls.has(late)) isOver(late);
    });
  }

  serve(call: WaitingCall, hold: Hold): void {
    this.#remove(call);
    call.resolve(hold);
  }

  reject(call: WaitingCall, error: Error): void {
    this.#remove(call);
    call.reject(error);
  }

  rejectAll(error: () => Error): void {
    for (const call of [...this.#calls]) this.reject(call, error());
  }

  /** @param failure why it is unknown who has the key, if so */
  refuse(call: WaitingCall, failure: LockStoreError | undefined): void {
    this.#remove(call);
    call.refuse(this.#parts.clock.now(), failure);
  }

  /** Refuses the calls at the end of their wait, because somebody has the key. */
  refuseAllAtEnd(): void {
    if (this.#atEnd === 0) return; // the usual case, and the queue may be long
    this.refuseEach((call) => call.atEnd, undefined);
  }

  refuseEach(isMeant: (call: WaitingCall) => boolean, failure: LockStoreError | undefined): void {
    for (const call of [...this.#calls]) if (isMeant(call)) this.refuse(call, failure);
  }

  #remove(call: WaitingCall): void {
    if (call.atEnd && this.#calls.has(call)) this.#atEnd--;
    this.#calls.delete(call);
    this.#parts.scheduler.cancel(call);
  }
}
