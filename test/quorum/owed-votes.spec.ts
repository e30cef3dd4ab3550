/** What a node owes that did not answer, until it answers again. */
import { expect, it } from '@jest/globals';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import type { QuorumNode } from '../../libs/nestjs-locked/src/redis/quorum/quorum-node.js';
import { pollNodes } from '../../libs/nestjs-locked/src/redis/quorum/quorum-poll.js';
import type {
  Arguments,
  QuorumRequests,
} from '../../libs/nestjs-locked/src/redis/quorum/quorum-requests.js';
import { VotesGivenBack } from '../../libs/nestjs-locked/src/redis/quorum/votes-given-back.js';
import { quorumScripts, tokenOfOther } from '../support/own-quorum.js';

const LEASE_MS = 60_000;
/** Where the script has the round up to which a vote is taken back. */
const ROUND = 8;

/** A node that is silent, and each command that was sent to it. */
function silentNode() {
  const sent: { readonly round: unknown; readonly fails: () => void }[] = [];
  const run = (...[, , , args]: [unknown, unknown, unknown, () => Arguments]): Promise<unknown> =>
    new Promise((resolve) => {
      sent.push({ round: args()[ROUND], fails: () => resolve({ kind: 'unknown' }) });
    });
  const node = {} as QuorumNode;
  const terms = { nodes: [node], clock: systemClock, limitMs: LEASE_MS };
  const requests: Partial<QuorumRequests> = {
    run: run as QuorumRequests['run'],
    clock: systemClock,
    scripts: quorumScripts(),
    poll: (ask, isDecided) => pollNodes({ ...terms, ask, isDecided }),
  };
  const votes = new VotesGivenBack(requests as QuorumRequests, LEASE_MS);
  return { node, votes, sent };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

it('are taken back up to the last round, in whichever order the commands fail [G50]', async () => {
  const { node, votes, sent } = silentNode();
  const token = tokenOfOther();
  for (const round of [1, 2])
    votes.surelyFrom(node, { key: 'a', token, used: 'none', round }, LEASE_MS);
  const [first, second] = sent.splice(0);
  second?.fails();
  await turn();
  first?.fails(); // it was sent again meanwhile, and had more time
  await turn();
  votes.settle(node);
  expect(sent.map(({ round }) => round)).toContain(2);
});

it('are those of a lease that was released meanwhile as well [G50]', async () => {
  const { node, votes, sent } = silentNode();
  const releasing = votes.fromAll({ key: 'a', token: tokenOfOther(), used: 5 }, () => false);
  sent.shift()?.fails();
  await releasing;
  votes.settle(node);
  expect(sent).toHaveLength(1);
});
