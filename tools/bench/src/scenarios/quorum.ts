/** What it costs that more than half of several servers must agree. */
import { RedisServer } from 'dev-servers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Adapter } from '../adapters/adapter.js';
import {
  allOf,
  onOneServer,
  ourQuorums,
  peerQuorums,
  QUORUM_LEASE_MS,
} from '../adapters/quorums.js';
import { Fleet, type Round } from '../measure/fleet.js';
import { ServerStatistics } from '../measure/server-statistics.js';
import { columnsOf, interleaved, measure, rowsOf } from './contest.js';
import type { Scenario } from './scenario.js';

const SERVERS = 5;

/** A node that has just started gives no vote, and asks for its age until then, in whole seconds. */
const OLD_ENOUGH_MS = 2 * QUORUM_LEASE_MS;

const WARM_UP_MS = 200;

interface QuorumRound {
  /** One caller, one key after the other. */
  readonly alone: Round;
  readonly commands: number;
  /** Four processes with a caller each, one key. */
  readonly contended: Round;
  readonly contendedCommands: number;
}

const MEASURES = [
  measure('rate', 'alone: holds per second', '', ({ alone }: QuorumRound) => alone.perSecond),
  measure('p50', 'p50 wait', 'ms', ({ alone }: QuorumRound) => alone.p50WaitMs),
  measure('p99', 'p99 wait', 'ms', ({ alone }: QuorumRound) => alone.p99WaitMs),
  measure('client-cpu', 'client CPU', 'µs', ({ alone }: QuorumRound) => alone.cpuUs),
  measure('commands', 'commands', '', ({ commands }: QuorumRound) => commands),
  measure(
    'contended-rate',
    '4 processes: holds per second',
    '',
    (r: QuorumRound) => r.contended.perSecond,
  ),
  measure('contended-p50', 'p50 wait', 'ms', (r: QuorumRound) => r.contended.p50WaitMs),
  measure('contended-p99', 'p99 wait', 'ms', (r: QuorumRound) => r.contended.p99WaitMs),
  measure('fairness', 'fairness', '', (r: QuorumRound) => r.contended.fairness),
  measure('contended-commands', 'commands', '', (r: QuorumRound) => r.contendedCommands),
];

export const quorum: Scenario = {
  id: 'quorum',
  title: 'A quorum of 3 and of 5 servers, and one of them alone',
  what: 'First one caller takes and releases 300 keys in turn; then 4 processes with a caller each want one key, with 2 ms of work. All have leases of 3 s. Commands are those of all servers, for each hold.',
  isQuick: false,
  async run({ rounds, pace, fleet: { violations } }) {
    const servers: RedisServer[] = [];
    for (let n = 0; n < SERVERS; n++) servers.push(await RedisServer.start());
    const statistics = servers.map(({ url }) => new ServerStatistics(url));
    const fleet = new Fleet(allOf(servers.map(({ url }) => url)), WARM_UP_MS * pace);
    const contestants = [onOneServer, ...ourQuorums, ...peerQuorums];
    try {
      await sleep(OLD_ENOUGH_MS);
      const found = await interleaved(contestants, rounds, (adapter) =>
        play(fleet, statistics, adapter, pace),
      );
      violations.push(...fleet.violations);
      return {
        columns: columnsOf(MEASURES),
        rows: rowsOf(contestants, found, MEASURES),
        goals: [],
      };
    } finally {
      await fleet.end();
      for (const one of statistics) one.close();
      await Promise.all(servers.map((server) => server.stop()));
    }
  },
};

async function play(
  fleet: Fleet,
  statistics: readonly ServerStatistics[],
  adapter: Adapter,
  pace: number,
): Promise<QuorumRound> {
  const keys = [Array.from({ length: 300 }, (_, n) => `quorum:${n}`)];
  const alone = await counted(statistics, `alone of ${adapter.id}`, () =>
    fleet.apart(adapter, keys, { ms: 400 * pace }),
  );
  const contended = await counted(statistics, `contended of ${adapter.id}`, () =>
    fleet.together(adapter, 'quorum', { processes: 4, callers: 1, ms: 1_000 * pace, workMs: 2 }),
  );
  return {
    alone: alone.round,
    commands: alone.commands,
    contended: contended.round,
    contendedCommands: contended.commands,
  };
}

/** On a busy machine, ioredis may mistake what MONITOR reports for the answer to a command. */
async function onceMore<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (!String(error).includes('Command queue state error')) throw error;
    return act();
  }
}

/** With the number of commands for each hold, on all servers together. */
async function counted(
  statistics: readonly ServerStatistics[],
  name: string,
  act: () => Promise<Round>,
): Promise<{ readonly round: Round; readonly commands: number }> {
  let commands = 0;
  const begun = async (): Promise<Round> => {
    commands = 0;
    return act();
  };
  const watched = statistics.reduce<() => Promise<Round>>(
    (inner, one) => async () => {
      const { commands: sent, ...round } = await one.spentOn(name, inner);
      commands += sent;
      return round;
    },
    begun,
  );
  const round = await onceMore(watched);
  return { round, commands: commands / round.holds };
}
