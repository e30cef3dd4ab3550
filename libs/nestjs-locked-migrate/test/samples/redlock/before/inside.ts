import { setTimeout as sleep } from 'node:timers/promises';

/** How many callers are inside at once, at most. */
export class Inside {
  most = 0;
  #now = 0;

  async work(): Promise<number> {
    this.most = Math.max(this.most, ++this.#now);
    await sleep(10);
    this.#now -= 1;
    return this.most;
  }
}
