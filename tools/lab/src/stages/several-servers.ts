import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RETRY_MS, seconds } from '../scale.js';
import type { RecordedRedis } from '../work/recorded-redis.js';
import { lockStage, OUR_QUORUM, type Stage } from './stage.js';
import { RELEASE } from './with-commands.js';

/** How long a server may take to answer: short, so that one that is away costs little of the lease. */
const ANSWER_MS = seconds(1);

/** What the clocks of the servers may differ by while the lock lasts. */
const DRIFT_MS = LEASE_MS * 0.01 + 2;

/** Keeps no command for a server that is away: a vote must not be given when its round is over. */
const AT_ONCE_OR_NEVER = { enableOfflineQueue: false, autoResendUnfulfilledCommands: false };

/** Stages of several independent servers, of which more than half must agree. */
export const SEVERAL_SERVERS: readonly Stage[] = [
  lockStage({
    id: '18',
    name: 'Redlock, 3 servers',
    lesson: 'A lock that more than half of several servers have survives the loss of one of them.',
    breaks:
      'A server that forgets a vote, or whose clock steps, votes again. There is no number for the database to check.',
    traits: ['lock', 'redis', 'expiry', 'several servers'],
    async lock({ nodes: open }) {
      const nodes = await open(AT_ONCE_OR_NEVER);

      async function release(key: string, owner: string): Promise<void> {
        await Promise.all(nodes.map((node) => answerOf(node.eval(RELEASE, 1, key, owner))));
      }

      return {
        async acquire(key) {
          for (;;) {
            const owner = randomUUID();
            const start = performance.now();
            let votes = 0;
            for (const node of nodes) if (await votesFor(node, key, owner)) votes += 1;
            const validMs = LEASE_MS - (performance.now() - start) - DRIFT_MS;
            // Breaks here: what is valid now is looked at once, and then the work takes its time.
            if (votes > nodes.length / 2 && validMs > 0) return owner;
            await release(key, owner);
            await sleep(RETRY_MS * (0.5 + Math.random()));
          }
        },
        release,
      };
    },
  }),
  {
    id: OUR_QUORUM,
    name: 'nestjs-locked, 3 servers',
    lesson:
      'A server that may have forgotten a vote gives none, lost votes are renewed, and the database checks a number.',
    breaks:
      'A clock that steps can let two hold it for a moment; the fence lets only one of them write.',
    traits: ['lock', 'redis', 'expiry', 'renewal', 'local hand-over', 'several servers'],
    open: async (tools) => (await import('./stock.service.js')).openShop(tools),
  },
];

async function votesFor(node: RecordedRedis, key: string, owner: string): Promise<boolean> {
  // Breaks here: the server may have voted for somebody else, and not know of it any more.
  return (await answerOf(node.set(key, owner, 'PX', LEASE_MS, 'NX'))) === 'OK';
}

/** Nothing if the server is away, or does not answer in time. */
async function answerOf<T>(answer: Promise<T>): Promise<T | undefined> {
  const nothing = sleep(ANSWER_MS, undefined, { ref: false });
  return Promise.race([answer.catch(() => undefined), nothing]);
}
