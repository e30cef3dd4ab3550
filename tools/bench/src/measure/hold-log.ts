/** When a process was inside, in nanoseconds of the clock that all processes of this machine share. */
export interface Holds {
  readonly from: Float64Array;
  readonly until: Float64Array;
}

/** The log of one process. It grows by doubling, so that writing to it costs next to nothing while locks are held. */
export class HoldLog {
  #waits = new Float64Array(4_096);
  #from = new Float64Array(4_096);
  #until = new Float64Array(4_096);
  #length = 0;

  add(waitNs: number, from: number, until: number): void {
    if (this.#length === this.#from.length) this.#grow();
    this.#waits[this.#length] = waitNs;
    this.#from[this.#length] = from;
    this.#until[this.#length] = until;
    this.#length += 1;
  }

  get waitsNs(): Float64Array {
    return this.#waits.slice(0, this.#length);
  }

  get holds(): Holds {
    return { from: this.#from.slice(0, this.#length), until: this.#until.slice(0, this.#length) };
  }

  #grow(): void {
    this.#waits = doubled(this.#waits);
    this.#from = doubled(this.#from);
    this.#until = doubled(this.#until);
  }
}

function doubled(values: Float64Array): Float64Array<ArrayBuffer> {
  const grown = new Float64Array(values.length * 2);
  grown.set(values);
  return grown;
}
