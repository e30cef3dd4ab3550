import { setTimeout as sleep } from 'node:timers/promises';

/** Counts who is inside at the same time. */
export class Inside {
  #now = 0;
  most = 0;
  entered = 0;

  enter(): void {
    this.#now += 1;
    this.entered += 1;
    this.most = Math.max(this.most, this.#now);
  }

  leave(): void {
    this.#now -= 1;
  }

  /** Work that takes this long. */
  async work(ms: number): Promise<void> {
    this.enter();
    try {
      await sleep(ms);
    } finally {
      this.leave();
    }
  }
}
