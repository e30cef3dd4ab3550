import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome, Scenario } from '../scenario.js';
import type { Engine, Signal } from '../stage/engines.js';
import { Inside } from '../stage/inside.js';
import { inSeconds, settled } from '../stage/settled.js';
import { sidesOfThree, type ThreeServers } from '../stage/three-servers.js';

const STEP_S = 60;
const OTHER_LIMIT_MS = 12_000;

/** Works for so long, whatever it is told, and notes when it is told that it has lost its lock. */
class Holder {
  readonly inside = new Inside();
  readonly ended: Promise<unknown>;
  #toldAt: number | undefined;
  #steppedAt = 0;

  constructor(engine: Engine, ms: number) {
    const work = async (signal?: Signal): Promise<void> => {
      this.inside.enter();
      for (const until = performance.now() + ms; performance.now() < until; await sleep(10)) {
        if (signal?.aborted === true) this.#toldAt ??= performance.now();
      }
      this.inside.leave();
    };
    this.ended = engine.hold('stock:42', work).catch(() => {});
  }

  async entersWithin(ms: number): Promise<boolean> {
    for (let n = 0; n < ms / 50 && this.inside.entered === 0; n += 1) await sleep(50);
    return this.inside.entered > 0;
  }

  stepped(): void {
    this.#steppedAt = performance.now();
  }

  /** Another process asks for the key, and works for a second. */
  async outcomeWith(other: Engine): Promise<Outcome> {
    const second = await settled(
      other.hold('stock:42', () => this.inside.work(1_000)),
      OTHER_LIMIT_MS,
    );
    await this.ended;
    const { most } = this.inside;
    const told =
      this.#toldAt === undefined
        ? 'was not told'
        : `was told ${inSeconds(this.#toldAt - this.#steppedAt)} after the step`;
    const served = second.state === 'fulfilled' ? 'served' : 'not served';
    return {
      holds: most === 1 && second.state === 'fulfilled',
      figure: `${most} inside at once${most === 1 && served === 'not served' ? ', the second not served' : ''}`,
      words: most === 1 ? '' : `The first ${told}.`,
    };
  }
}

export const quorumClockStep: Scenario<ThreeServers> = {
  title: 'Of three servers, one is cut off while a lock is taken, and the clock of another steps',
  workload:
    'Three independent servers, one of which a process cannot reach while it takes a lock for 4 s, with a lease of 5 s. ' +
    `Then the clock of one of the two that have it steps forward by ${STEP_S} s, the third can be reached again, and another ` +
    'process, which was never cut off, asks for the key. ✓ is that it gets the lock, and not before the first is done.',
  limitMs: 60_000,
  async play({ one, openElsewhere, servers: [, stepping], proxies: [, , away] }) {
    const other = await openElsewhere();
    await away?.close();
    await sleep(100); // until its clients know
    const holder = new Holder(one, 4_200);
    if (!(await holder.entersWithin(5_000))) {
      return { holds: false, figure: 'not taken in 5 s', words: '' };
    }
    await stepping?.stepClock(STEP_S);
    holder.stepped();
    await away?.open();
    return holder.outcomeWith(other);
  },
  sides: sidesOfThree(
    {
      redlock: ['✗ 2 inside at once', '✗ 2 inside at once'],
      semaphore: ['✗ not taken in 5 s', '✗ 2 inside at once'],
      universal: ['✗ not taken in 5 s', '✗ 2 inside at once'],
      ours: '✗ 2 inside at once',
    },
    true,
  ),
};

export const quorumClocksStep: Scenario<ThreeServers> = {
  title: 'The clocks of two of three servers step, one 6 s after the other',
  workload:
    `Three independent servers; a lock with a lease of 5 s is renewed for 9 s. The clock of one server steps forward by ` +
    `${STEP_S} s at the beginning, and that of another one 6 s later. Then another process asks for the key. ✓ is that it ` +
    'gets the lock, and not before the first is done.',
  limitMs: 60_000,
  async play({ one, openElsewhere, servers: [, second, third] }) {
    const other = await openElsewhere();
    const holder = new Holder(one, 9_000);
    if (!(await holder.entersWithin(5_000))) {
      return { holds: false, figure: 'not taken in 5 s', words: '' };
    }
    await sleep(200);
    await second?.stepClock(STEP_S);
    await sleep(6_000);
    await third?.stepClock(STEP_S);
    holder.stepped();
    return holder.outcomeWith(other);
  },
  sides: sidesOfThree(
    {
      redlock: ['✗ 2 inside at once'],
      semaphore: ['✓ 1 inside at once'],
      universal: ['✗ 2 inside at once'],
      ours: '✓ 1 inside at once',
    },
    true,
  ),
};
