import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { inSeconds, settled } from '../stage/settled.js';
import { QUORUM_LEASE_MS, sidesOfThree, type ThreeServers } from '../stage/three-servers.js';

const LIMIT_MS = 12_000;

export const quorumForgets: Scenario<ThreeServers> = {
  title: 'Of three servers, one is away while a lock is taken, and one of the others forgets it',
  workload:
    'Three independent servers, one of which is down while a lock is taken for 4 s, with a lease of 5 s. Then one of ' +
    'the two that have it restarts without its data, the third comes back, and another process starts and asks for the key. ' +
    '✓ is that he does not get it meanwhile.',
  limitMs: 60_000,
  async play({ one, openOther, servers: [, forgetful, away] }) {
    let inside = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      inside += 1;
      most = Math.max(most, inside);
      await sleep(4_200);
      inside -= 1;
    };
    await away?.kill();
    await sleep(100); // until its clients know
    const holder = one.hold('stock:42', work).catch(() => {});
    for (let n = 0; n < 100 && inside === 0; n += 1) await sleep(50);
    if (inside === 0) return { holds: false, figure: 'not taken in 5 s', words: '' };
    await Promise.all([forgetful?.restart(), away?.restart()]);
    const other = await openOther();
    const second = await settled(other.hold('stock:42', work), 10_000);
    await holder;
    const words =
      second.state === 'rejected'
        ? `The second call failed: "${second.error.message}"`
        : `The second call was ${second.state === 'fulfilled' ? 'served' : 'not answered'}.`;
    return { holds: most === 1, figure: `${most} inside at once`, words };
  },
  sides: sidesOfThree({
    // What redlock has kept for the server that is away may reach it before the second call does.
    redlock: [['✗ 2 inside at once', '✓ 1 inside at once'], '✗ 2 inside at once'],
    semaphore: ['✗ not taken in 5 s', '✗ 2 inside at once'],
    // On a busy machine, the second call may be out of tries before both servers answer it.
    universal: ['✗ not taken in 5 s', ['✗ 2 inside at once', '✓ 1 inside at once']],
    ours: '✓ 1 inside at once',
  }),
};

const LATE_MS = 1_000;
const PROMPT = '✓ 10 of 10 served, less than 0.5 s each';
const LATE = '✗ 10 of 10 served, # s each';

export const quorumLateAnswer: Scenario<ThreeServers> = {
  title: 'One of three servers answers a second late',
  workload:
    'Three independent servers, one of which answers a second later than the others. Ten locks are taken and given ' +
    'back, one after the other. ✓ is that nobody waits for the late one: less than half a second for each lock.',
  limitMs: 60_000,
  async play({ one, proxies: [, , late] }) {
    await one.hold('stock:41', async () => {});
    for (const link of late?.links ?? []) link.answersLateByMs = LATE_MS;
    const from = performance.now();
    const results: string[] = [];
    for (let n = 0; n < 10; n += 1) {
      const result = await settled(
        one.hold(`stock:${n}`, async () => {}),
        LIMIT_MS,
      );
      results.push(result.state);
    }
    const ms = (performance.now() - from) / 10;
    const served = results.filter((state) => state === 'fulfilled').length;
    const isPrompt = ms < LATE_MS / 2;
    const each = isPrompt ? 'less than 0.5 s' : inSeconds(ms);
    return {
      holds: served === 10 && isPrompt,
      figure: `${served} of 10 served, ${each} each`,
      words: '',
    };
  },
  sides: sidesOfThree({
    redlock: [PROMPT, PROMPT],
    semaphore: [LATE, LATE],
    universal: [LATE, LATE],
    // On a busy machine, a lock of ours may take as long as that without any late answer.
    ours: [PROMPT, LATE],
  }),
};

export const quorumMajorityDies: Scenario<ThreeServers> = {
  title: 'Two of three servers die while a lock is held',
  workload:
    'Three independent servers, two of which are killed while a lock is held with a lease of 5 s that is renewed. ' +
    '✓ is that the work is told by its signal before the lease is over.',
  limitMs: 60_000,
  async play({ one, servers: [first, second] }) {
    let toldMs: number | undefined;
    let killedAt = 0;
    const call = one
      .hold('stock:42', async (signal) => {
        await Promise.all([first?.kill(), second?.kill()]);
        killedAt = performance.now();
        while (toldMs === undefined && performance.now() < killedAt + 9_000) {
          if (signal?.aborted === true) toldMs = performance.now() - killedAt;
          await sleep(10);
        }
      })
      .then(
        () => 'fulfilled',
        () => 'rejected',
      );
    await Promise.race([call, sleep(20_000)]);
    if (toldMs === undefined) return { holds: false, figure: 'not told', words: '' };
    return {
      holds: toldMs <= QUORUM_LEASE_MS,
      figure: `told after ${inSeconds(toldMs)}`,
      words: '',
    };
  },
  sides: sidesOfThree({
    redlock: ['✗ not told', '✗ told after # s'],
    semaphore: ['✗ not told', '✓ told after # s'],
    universal: [['✗ not told', '✗ told after # s'], '✓ told after # s'],
    // The timer that tells is late on a busy machine, and the lease was renewed shortly before.
    ours: ['✓ told after # s', '✗ told after 5.# s'],
  }),
};
