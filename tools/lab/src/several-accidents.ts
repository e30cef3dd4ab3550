import { faketime } from 'dev-servers';
import type { Accident } from './accidents.js';
import type { Caller } from './run/caller.js';
import type { Scene } from './run/scene.js';
import type { SeveralServers } from './run/several-servers.js';
import { LEASE_MS } from './scale.js';
import { OUR_QUORUM } from './stages/stage.js';

const STEP_S = 60;

/** What happens to one of several servers, or to most of them. */
export const SEVERAL_ACCIDENTS: readonly Accident[] = [
  {
    id: 'forgets',
    name: 'a server restarts without its data',
    short: 'server forgets',
    how: 'A takes the lock and cannot reach the third server; the second restarts without its data, A reaches the third again, and B asks',
    servers: 'several',
    goal: { sold: 20 },
    async play(scene) {
      const { a, b } = await withTwoVotes(scene, async (servers) => {
        await servers.restartSecond();
        scene.disturb('the second server has restarted, and has no votes');
      });
      await entersMeanwhile(scene, a, b);
    },
  },
  {
    id: 'node-clock',
    name: 'the clock of a server steps',
    short: 'server clock',
    how: `A takes the lock and cannot reach the third server; the clock of the second steps forward by ${STEP_S} s, A reaches the third again, and B asks`,
    servers: 'several',
    unless: () => (faketime === undefined ? 'there is no libfaketime on this machine' : undefined),
    goal: { sold: 10, refused: 1 },
    async play(scene) {
      const { a, b } = await withTwoVotes(
        scene,
        async (servers) => {
          await servers.stepClockOfSecond(STEP_S);
          scene.disturb(
            `the clock of the second server steps by ${STEP_S} s, and its vote expires`,
          );
        },
        true,
      );
      if (scene.stage.id === OUR_QUORUM) {
        scene.saw('two may hold it until the next renewal, and the fence lets one of them write');
      }
      await entersMeanwhile(scene, a, b);
    },
  },
  {
    id: 'most-die',
    name: 'two of three servers die',
    short: 'most die',
    how: 'A has the lock; two of the three servers are killed, and B asks; they come back without their data, and C asks; then A goes on',
    servers: 'several',
    goal: { sold: 10, refused: 2 },
    async play(scene) {
      const servers = await scene.severalServers();
      const [a, b, c] = await scene.callers(['A', 'B', 'C']);
      await a.buysUntil('inside');
      await servers.killTwo();
      scene.disturb('two of three servers are killed');
      await b.asks();
      await b.holds(LEASE_MS * 0.1);
      await servers.restartTwo();
      scene.disturb('they are back, and have no votes');
      c.buy();
      await entersMeanwhile(scene, a, c);
      await b.ends();
      await c.ends();
    },
  },
];

/** A has the votes of two servers, one of them does something, and A reaches the third again. */
async function withTwoVotes(
  scene: Scene,
  act: (servers: SeveralServers) => Promise<void>,
  hasOwnClock = false,
): Promise<{ readonly a: Caller; readonly b: Caller }> {
  const servers = await scene.severalServers({ hasOwnClock });
  const [a, b] = await scene.callers(['A', 'B'], { each: [{ nodeUrls: servers.urlsToCut }, {}] });
  await servers.cutOff();
  await a.buysUntil('inside', 'renewal'); // which would bring the vote back that is lost
  await act(servers);
  await servers.reconnect();
  return { a, b };
}

/** Another one asks while A works, for no longer than a lease. */
async function entersMeanwhile(scene: Scene, a: Caller, other: Caller): Promise<void> {
  if (!other.hasBegun) other.buy();
  if (await other.holds(LEASE_MS * 0.5)) await other.ends(LEASE_MS * 0.2);
  scene.mark('A finishes its work');
  a.goOn();
  await a.ends();
}
