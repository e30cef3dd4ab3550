import { tooManyAway } from 'check-history';
import { faketime, RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import type { SeededRandom } from 'kit';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Interval } from '../checker/intervals.js';
import { type EntryKinds, SLOW_PULSE } from '../history/entry.js';
import { type HistoryFile, monotonicMs } from '../history/history-file.js';
import { LONG_LEASE_MS } from '../worker/repertoire.js';
import type { Absence } from './absences.js';
import { LatencyProxy } from './latency-proxy.js';
import { openClient, type QuorumAddress } from './redis-address.js';
import type { Master, Stage } from './stage.js';

const SIZE = 5;

/** A majority of the others must still be there. */
export const MOST_AWAY = (SIZE - 1) / 2;

/** A node that has started gives no vote for so long: no lease of a run is longer. */
export const REJOIN_AFTER_MS = LONG_LEASE_MS;

/** How far beyond that it may be counted as young: its age is known in whole seconds, of which one has just begun. */
const AGE_MS = 2_000;

/** The longest pause before connecting again, and a round trip. */
const RECONNECT_MS = 1_250;

/** One of the independent masters, and the ways to it. */
export interface QuorumNode extends Master {
  readonly index: number;
  readonly proxy: LatencyProxy;
}

/** Independent masters that keep nothing on disk. Each worker reaches some of them directly and others by a proxy. */
export class QuorumStage implements Stage {
  /** A node that is silent when a call leaves the line keeps the place, and no vote waits for it. */
  readonly mayStay = /^lock:\{[^{}]+\}:queue$/;
  readonly #absences: Absence[] = [];
  /** Of what was written down about too many being away: that of faults, and that of the machine. */
  readonly #noted: (Interval & { readonly isPlanned: boolean })[] = [];
  readonly #history: Pick<HistoryFile<EntryKinds>, 'note'>;

  private constructor(
    readonly nodes: readonly QuorumNode[],
    history: Pick<HistoryFile<EntryKinds>, 'note'>,
  ) {
    this.#history = history;
  }

  static async start(history: Pick<HistoryFile<EntryKinds>, 'note'>): Promise<QuorumStage> {
    const nodes: QuorumNode[] = [];
    for (let index = 0; index < SIZE; index++) nodes.push(await startNode(index));
    await sleep(REJOIN_AFTER_MS + AGE_MS); // before that, nobody gets a lock
    return new QuorumStage(nodes, history);
  }

  get masters(): readonly QuorumNode[] {
    return this.nodes;
  }

  addressFor(random: SeededRandom): QuorumAddress {
    const urls = this.nodes.map(({ server, proxy }) => (random.chance(0.5) ? server : proxy).url);
    return { quorum: urls, rejoinAfterMs: REJOIN_AFTER_MS };
  }

  /** Those that can be counted on now. */
  get present(): readonly QuorumNode[] {
    const now = monotonicMs();
    const away = this.#absences.filter(({ until }) => until > now).map(({ node }) => node);
    return this.nodes.filter(({ index }) => !away.includes(index));
  }

  /**
   * Does something to nodes that they cannot be counted on meanwhile, nor until everybody has connected again.
   *
   * @param restarts whether they have lost their data and must not vote for a while
   * @param moreMs for how much longer they cannot be counted on
   */
  async without(
    nodes: readonly QuorumNode[],
    act: () => Promise<unknown>,
    {
      restarts = false,
      moreMs = 0,
    }: { readonly restarts?: boolean; readonly moreMs?: number } = {},
  ): Promise<void> {
    const from = monotonicMs();
    const youngMs = restarts ? REJOIN_AFTER_MS + AGE_MS : 0;
    try {
      await act();
    } finally {
      const ms = monotonicMs() - from + Math.max(moreMs, youngMs) + RECONNECT_MS;
      for (const { index } of nodes) this.#away(index, from, ms);
    }
  }

  /** A node took long to answer, because of a fault or because of the machine. */
  wasSlow(server: RedisServer, from: number, until: number): void {
    const node = this.nodes.find((one) => one.server === server);
    if (node !== undefined) this.#away(node.index, from, until - from, true);
  }

  async stop(): Promise<void> {
    for (const { admin, proxy, server } of this.nodes) {
      admin.disconnect();
      await proxy.close();
      await server.stop();
    }
  }

  /** As long as a majority is there, nobody may notice anything. */
  #away(node: number, from: number, ms: number, isOfMachine = false): void {
    const until = from + ms;
    this.#absences.push({ node, from, until, isOfMachine });
    for (const times of tooManyAway(this.#absences, MOST_AWAY, { from, until })) {
      const planned = this.#absences.filter((absence) => !absence.isOfMachine);
      const isPlanned = tooManyAway(planned, MOST_AWAY, times).length > 0;
      const isKnown = this.#noted.some(
        (one) => one.isPlanned === isPlanned && one.from <= times.from && one.until >= times.until,
      );
      if (isKnown) continue;
      this.#noted.push({ ...times, isPlanned });
      const name = isPlanned ? 'too few nodes' : SLOW_PULSE;
      this.#history.note('fault', { name, until: times.until, disturbs: 'all' }, times.from);
    }
  }
}

async function startNode(index: number): Promise<QuorumNode> {
  const server = await RedisServer.start({ hasOwnClock: faketime !== undefined });
  const admin: Redis = openClient(server.url);
  const proxy = await new LatencyProxy(server.port).open();
  return { index, server, admin, keys: 'all', proxy };
}
