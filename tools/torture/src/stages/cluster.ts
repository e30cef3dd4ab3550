import { RedisCluster } from 'dev-servers';
import type { SeededRandom } from 'kit';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Faults, noted } from '../faults/fault.js';
import type { Concerned, EntryKinds } from '../history/entry.js';
import { type HistoryFile, monotonicMs } from '../history/history-file.js';
import { EVERY_KEY, HOT_KEYS, LONG_KEYS, WARM_KEYS } from '../keys.js';
import type { RedisAddress } from './redis-address.js';
import { type Master, masterOf, type Member, serverOf } from './stage.js';
import {
  failoverInOrder,
  type Look,
  MASTER_FAULTS,
  memberOf,
  POLL_MS,
  roleOf,
  WatchedStage,
} from './watched.js';

const NODE_TIMEOUT_MS = 2_000;
const MIGRATE_LIMIT_MS = 5_000;
/** A node that is slower than this does not count. */
const ANSWER_LIMIT_MS = 300;
/** How long all nodes together may take to say how they are. */
const LOOK_LIMIT_MS = 5_000;
/** Longer than a replica needs that starts from nothing on a busy machine. Without it, a run might never end. */
const SETTLED_LIMIT_MS = 60_000;

/** Three masters with a replica each. The keys are spread over all of them. */
export class ClusterStage extends WatchedStage {
  /** Whether the other masters refuse their own keys as well while one of them is away. */
  readonly #isAllOrNothing: boolean;
  readonly #slots: ReadonlyMap<string, number>;
  /** The keys of ranges of slots, which are looked for many times a second. */
  readonly #keys = new Map<string, readonly string[]>();

  private constructor(
    readonly cluster: RedisCluster,
    isAllOrNothing: boolean,
    members: readonly Member[],
    slots: ReadonlyMap<string, number>,
    history: HistoryFile<EntryKinds>,
  ) {
    super(members, history);
    this.#isAllOrNothing = isAllOrNothing;
    this.#slots = slots;
  }

  static async start(
    random: SeededRandom,
    history: HistoryFile<EntryKinds>,
  ): Promise<ClusterStage> {
    const requireFullCoverage = random.chance(0.5);
    const options = { nodeTimeoutMs: NODE_TIMEOUT_MS, requireFullCoverage };
    const cluster = await RedisCluster.start(options);
    const members = await Promise.all(cluster.nodes.map(memberOf));
    const [{ admin }] = members as [Member];
    const slots = EVERY_KEY.map(async (key) => {
      return [key, Number(await admin.cluster('KEYSLOT', `lock:{${key}}`))] as const;
    });
    const slotOf = new Map(await Promise.all(slots));
    return new ClusterStage(cluster, requireFullCoverage, members, slotOf, history).watch();
  }

  addressFor(): RedisAddress {
    return { cluster: this.cluster.startupNodes };
  }

  /** A planned failover: the replica gets everything that its master has, and takes its place. */
  async failOver({ server }: Master): Promise<void> {
    const [replica] = await this.cluster.replicasOf(server);
    if (replica === undefined) throw new Error('no replica to take over');
    this.mayNotForget(this.memberOf(replica));
    await this.cluster.failover(replica);
  }

  /**
   * Resolves when the master has lost its keys to its replica, and all others know it.
   * @throws Error if that takes too long
   */
  async replaced({ server, keys }: Master): Promise<void> {
    const until = monotonicMs() + SETTLED_LIMIT_MS;
    while (monotonicMs() < until) {
      const next = this.masters.find((master) => keys.includes(master.keys[0] ?? ''));
      if (next !== undefined && next.server !== server) {
        return this.isNamed(this.memberOf(next.server));
      }
      await sleep(POLL_MS);
    }
    throw new Error(`Nobody has taken the place of master ${server.port}`);
  }

  /** Moves the slot of a key to another master. In the pauses between the steps, calls meet what is half done. */
  async moveSlotOf(key: string, from: Master, to: Master, pause: () => Promise<void>) {
    const slot = this.#slots.get(key) as number;
    await this.cluster.beginMove(slot, to.server);
    await pause();
    for (;;) {
      const found = (await from.admin.call('CLUSTER', 'GETKEYSINSLOT', slot, 1)) as string[];
      const [next] = found;
      if (next === undefined) break;
      const target = ['127.0.0.1', to.server.port, next, 0, MIGRATE_LIMIT_MS] as const;
      await from.admin.call('MIGRATE', ...target);
      await pause();
    }
    await this.cluster.endMove(slot);
  }

  /**
   * Resolves when every node answers, every master has a replica that gets everything, and all agree.
   * @throws Error if that takes too long
   */
  async settled(): Promise<void> {
    const until = monotonicMs() + SETTLED_LIMIT_MS;
    for (;;) {
      // What was asked of a server while it was killed may never be answered.
      const unsettled = await Promise.race([
        this.#unsettled().catch(String),
        sleep(LOOK_LIMIT_MS, 'some node does not answer'),
      ]);
      if (unsettled === undefined) return;
      if (monotonicMs() > until) throw new Error(`The cluster has not settled: ${unsettled}`);
      await sleep(POLL_MS);
    }
  }

  async tidyUp(): Promise<void> {}

  disturbedWithout({ keys }: Master): Concerned {
    return this.#isAllOrNothing ? 'all' : serverOf(keys);
  }

  override async stop(): Promise<void> {
    await super.stop();
    await this.cluster.stop();
  }

  /** @returns what is not as it should be */
  async #unsettled(): Promise<string | undefined> {
    for (const member of this.members) {
      const { isMaster, isLinked } = await roleOf(member);
      const name = `node ${member.server.port}`;
      if (!isMaster && !isLinked) return `${name} gets nothing from its master`;
      if (!(await isClusterWhole(member))) return `${name} does not find the cluster whole`;
      const view = await nodesSeenBy(member);
      if (view.some(({ isFailing }) => isFailing)) return `${name} finds that a node fails`;
    }
    for (const master of await this.cluster.masters()) {
      const replicas = await this.cluster.replicasOf(master);
      if (replicas.length === 0) return `master ${master.port} has no replica`;
    }
    return undefined;
  }

  protected async look(member: Member): Promise<Look> {
    const [role, view, isServing] = await Promise.all([
      roleOf(member),
      nodesSeenBy(member),
      isClusterWhole(member),
    ]);
    const self = view.find(({ isMyself }) => isMyself) as NodeLine;
    const leader = self.masterId === '-' ? self : view.find(({ id }) => id === self.masterId);
    const keys = this.#keysIn(leader?.slots ?? []);
    return { ...role, isMaster: self.isMaster, keys, epoch: self.epoch, isServing };
  }

  #keysIn(ranges: NodeLine['slots']): readonly string[] {
    const name = JSON.stringify(ranges);
    let keys = this.#keys.get(name);
    if (keys === undefined) {
      const has = (slot: number): boolean =>
        ranges.some(([first, last]) => first <= slot && slot <= last);
      keys = EVERY_KEY.filter((key) => has(this.#slots.get(key) as number));
      this.#keys.set(name, keys);
    }
    return keys;
  }

  /** Resolves when every node that answers knows that it is a master with slots. */
  protected async isNamed({ server }: Member): Promise<void> {
    const id = this.cluster.nodeIdOf(server);
    const isKnownTo = async (member: Member): Promise<boolean> => {
      const answer = nodesSeenBy(member).catch(() => undefined);
      const view = await Promise.race([answer, sleep(ANSWER_LIMIT_MS, undefined)]);
      const line = view?.find((one) => one.id === id);
      return line === undefined || (line.isMaster && line.slots.length > 0);
    };
    while (!(await Promise.all(this.members.map(isKnownTo))).every(Boolean)) await sleep(POLL_MS);
  }
}

/** What can happen to the masters of a cluster. */
export const CLUSTER_FAULTS: Faults<ClusterStage> = {
  'cluster fails over': failoverInOrder,
  ...MASTER_FAULTS,
  /** Calls may have to wait for it, but no lease may be lost. */
  'slot moved': async (scene) => {
    const { random, stage } = scene;
    await stage.settled();
    const key = random.pick([...HOT_KEYS, ...WARM_KEYS, ...LONG_KEYS]);
    const from = masterOf(key, stage);
    const to = random.pick(stage.masters.filter(({ server }) => server !== from.server));
    const longest = random.pick([10, 100, 600, 1_500]);
    await noted(scene, { disturbs: { slotOf: key } }, () =>
      stage.moveSlotOf(key, from, to, () => sleep(random.between(0, longest))),
    );
    await stage.settled();
  },
};

/** A line of CLUSTER NODES. */
interface NodeLine {
  readonly id: string;
  readonly isMyself: boolean;
  readonly isMaster: boolean;
  readonly isFailing: boolean;
  readonly masterId: string;
  readonly epoch: number;
  readonly slots: readonly (readonly [first: number, last: number])[];
}

/** As this node sees it. While it is not, the node answers CLUSTERDOWN. */
async function isClusterWhole({ admin }: Member): Promise<boolean> {
  return String(await admin.call('CLUSTER', 'INFO')).includes('cluster_state:ok');
}

async function nodesSeenBy({ admin }: Member): Promise<NodeLine[]> {
  const text = String(await admin.call('CLUSTER', 'NODES'));
  return text.split('\n').flatMap((line) => {
    const [id = '', , flags = '', masterId = '', , , epoch, , ...slots] = line.trim().split(' ');
    if (id === '') return [];
    return {
      id,
      isMyself: flags.includes('myself'),
      isMaster: flags.includes('master'),
      isFailing: flags.includes('fail'),
      masterId,
      epoch: Number(epoch),
      slots: slots.filter((slot) => !slot.startsWith('[')).map(rangeOf),
    };
  });
}

function rangeOf(text: string): [first: number, last: number] {
  const [first, last = first] = text.split('-').map(Number);
  return [first as number, last as number];
}
