import type { EngineParts } from '../lease/engine-parts.js';
import type { LockStoreError } from '../lock.errors.js';
import { LinkedList } from '../runtime/linked-list.js';
import type { Hold } from './hold.js';
import type { WaitingCall } from './waiting-call.js';

/** The calls of one queue, in order of arrival, each with its timer. A call leaves once it has its answer. */
export class WaitingCalls {
  readonly #parts: EngineParts;
  readonly #calls = new LinkedList<WaitingCall>();
  /** How many of them are at the end of their wait. */
  #atEnd = 0;
  /** The calls whose wait is over, unless something that has arrived, but was not read yet, serves them. */
  readonly #overdue: WaitingCall[] = [];

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  get first(): WaitingCall | undefined {
    return this.#calls.first;
  }

  get size(): number {
    return this.#calls.size;
  }

  add(call: WaitingCall): void {
    this.#calls.add(call);
    if (call.atEnd) this.#atEnd++;
    this.lookLater(call);
  }

  /** Its wait is over; the answer on its way may still come. */
  startGrace(call: WaitingCall, now: number): void {
    call.startGrace(now);
    this.#atEnd++;
    this.lookLater(call);
  }

  lookLater(call: WaitingCall): void {
    this.#parts.scheduler.schedule(call, call.dueAt);
  }

  /** @param isOver told of a call that still waits when everything that has arrived has been read */
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

  /** @param failure why it is not known who has the key, if that is so */
  refuse(call: WaitingCall, failure: LockStoreError | undefined): void {
    this.#remove(call);
    call.refuse(this.#parts.clock.now(), failure);
  }

  /** Somebody has the key: that is the answer that they waited for. */
  refuseAllAtEnd(): void {
    if (this.#atEnd === 0) return; // nearly always, and the queue may be long
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
