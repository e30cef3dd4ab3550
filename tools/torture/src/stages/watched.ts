import type { RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import type { SeededRandom } from 'kit';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Fault, type Faults, noted, type Scene, standStill } from '../faults/fault.js';
import type { Concerned, Effects, EntryKinds, KnownLease } from '../history/entry.js';
import { type HistoryFile, monotonicMs } from '../history/history-file.js';
import { nameOfWorker } from '../worker/worker-process.js';
import type { RedisAddress } from './redis-address.js';
import { type Master, type Member, serverOf, type Stage } from './stage.js';

/** What a server says about itself. */
export interface Look {
  readonly isMaster: boolean;
  /** Of a replica: whether it gets what its master writes. */
  readonly isLinked: boolean;
  /** The keys of which it is the master, or would be in its master's place. */
  readonly keys: readonly string[];
  /** Of two masters that claim a key, the one with the higher number has it. */
  readonly epoch: number;
  /** Whether it carries out commands. A node of a cluster refuses them while it believes the cluster is not whole. */
  readonly isServing: boolean;
}

/** What is known of one member. */
interface Known {
  readonly look: Look;
  /** Counts promotions: the latest one is the highest. */
  readonly promoted: number;
  readonly seenAt: number;
  /** When it was last seen as a replica that gets everything. */
  readonly linkedAt: number;
  /** Since when it is a master that refuses all commands; undefined if it does not. */
  readonly refusesSince: number | undefined;
}

export const POLL_MS = 50;
const EVERY_MS = 25;
const PROCESSES_EVERY_MS = 500;

/**
 * Servers that take each other's places. It writes down what each replica knew when it became master, and when a master
 * refused all commands, whatever the reason for it was: a fault of ours, or a machine that was so busy that a master
 * seemed dead.
 */
export abstract class WatchedStage implements Stage {
  protected isRunning = true;
  /** What goes on until the end. */
  protected readonly loops: Promise<void>[] = [];
  readonly #known = new Map<Member, Known>();
  /** The ids of lock services, and the processes that they belong to. */
  readonly #processes = new Map<string, string | undefined>();
  #promotions = 0;
  /** The replica that is to take over after it has got everything. */
  #inOrder: Member | undefined;

  constructor(
    protected readonly members: readonly Member[],
    protected readonly history: HistoryFile<EntryKinds>,
  ) {}

  abstract addressFor(): RedisAddress;

  /** A planned failover of a master. */
  abstract failOver(master: Master): Promise<void>;

  /** Resolves when a replica has taken the place of the master, and everybody knows it. */
  abstract replaced(master: Master): Promise<void>;

  /** Resolves when every master has its replica. */
  abstract settled(): Promise<void>;

  /** What an operator may do after a failover. */
  abstract tidyUp(random: SeededRandom): Promise<void>;

  /** What is disturbed while a master is away. */
  abstract disturbedWithout(master: Master): Concerned;

  /** Asks a server about itself. Rejects if it does not answer. */
  protected abstract look(member: Member): Promise<Look>;

  /** Resolves when everybody who is asked for the master names this one. */
  protected abstract isNamed(member: Member): Promise<void>;

  /** Resolves when every member has been seen. */
  protected async watch(): Promise<this> {
    await Promise.all(this.members.map((member) => this.#see(member)));
    this.loops.push(...this.members.map((member) => this.#watch(member)), this.#learnProcesses());
    return this;
  }

  async stop(): Promise<void> {
    this.isRunning = false;
    await Promise.all(this.loops);
    for (const member of this.#known.keys()) this.#noteRefusal(member, monotonicMs());
    for (const { admin } of this.members) admin.disconnect();
  }

  /** The members that have keys, as far as can be known. */
  get masters(): readonly Master[] {
    const keys = new Map<Member, string[]>();
    for (const [key, owner] of this.#owners()) {
      keys.set(owner, [...(keys.get(owner) ?? []), key]);
    }
    return [...keys].map(([member, own]) => ({ ...member, keys: own }));
  }

  protected memberOf(server: RedisServer): Member {
    return this.members.find((member) => member.server === server) as Member;
  }

  /** Nothing may be forgotten when this replica becomes master. */
  protected mayNotForget(replica: Member): void {
    this.#inOrder = replica;
  }

  #owners(): Map<string, Member> {
    const rank = (member: Member): readonly [number, number] => {
      const { look, promoted } = this.#known.get(member) as Known;
      return [look.epoch, promoted];
    };
    const masters = [...this.#known.keys()]
      .filter((member) => this.#known.get(member)?.look.isMaster)
      .sort((a, b) => rank(a)[0] - rank(b)[0] || rank(a)[1] - rank(b)[1]);
    // A later one takes the keys of those before it.
    return new Map(
      masters.flatMap((member) =>
        (this.#known.get(member)?.look.keys ?? []).map((key) => [key, member] as const),
      ),
    );
  }

  async #watch(member: Member): Promise<void> {
    while (this.isRunning) {
      await sleep(EVERY_MS);
      await this.#see(member).catch(() => {}); // it is away
    }
  }

  async #see(member: Member): Promise<void> {
    const at = monotonicMs();
    const look = await this.look(member);
    const before = this.#known.get(member);
    const isPromoted = before?.look.isMaster === false && look.isMaster;
    const isRefusing = look.isMaster && !look.isServing;
    if (!isRefusing) this.#noteRefusal(member, at);
    this.#known.set(member, {
      look,
      promoted: isPromoted ? ++this.#promotions : (before?.promoted ?? 0),
      seenAt: at,
      linkedAt: look.isMaster || look.isLinked ? at : (before?.linkedAt ?? at),
      refusesSince: isRefusing ? (before?.refusesSince ?? before?.seenAt ?? at) : undefined,
    });
    if (isPromoted) this.loops.push(this.#notePromotion(member, look, before));
  }

  /** A former master, whose keys another one has by now, is nobody's concern. */
  #noteRefusal(member: Member, until: number): void {
    const at = this.#known.get(member)?.refusesSince;
    if (at === undefined) return;
    const owned = [...this.#owners()].filter(([, owner]) => owner === member);
    const disturbs = serverOf(owned.map(([key]) => key));
    this.history.note('fault', { name: 'master refuses', until, disturbs }, at);
  }

  async #notePromotion(member: Member, { keys }: Look, before: Known): Promise<void> {
    const isInOrder = this.#inOrder === member;
    if (isInOrder) this.#inOrder = undefined;
    const leases = Object.fromEntries(
      await Promise.all(keys.map(async (key) => [key, await this.#leaseOf(member, key)] as const)),
    );
    await this.isNamed(member).catch(() => {}); // another one has taken its place
    const unknownTo = { cutAt: before.linkedAt, leases };
    const loss: Partial<Effects> = isInOrder ? {} : { forgets: { unknownTo }, notice: 'reconnect' };
    const name = isInOrder ? 'replica promoted in order' : 'replica promoted';
    const until = monotonicMs();
    this.history.note('fault', { name, until, disturbs: serverOf(keys), ...loss }, before.seenAt);
  }

  async #leaseOf({ admin }: Member, key: string): Promise<KnownLease | null> {
    const at = monotonicMs();
    const lock = `lock:{${key}}`;
    const [token, ms] = await Promise.all([admin.get(lock), admin.pttl(lock)]).catch(
      () => [null, -2] as const,
    );
    if (token === null || ms <= 0) return null;
    const process = this.#processes.get(token.split(':')[0] ?? '');
    return { ...(process !== undefined && { process }), until: at + ms };
  }

  /** Every lock service has written into Redis which process it belongs to. */
  async #learnProcesses(): Promise<void> {
    for (; this.isRunning; await sleep(PROCESSES_EVERY_MS)) {
      for (const { admin } of this.masters) {
        for (const key of await admin.keys('lock:process:*').catch(() => [])) {
          const id = key.slice('lock:process:'.length);
          if (this.#processes.has(id)) continue;
          const text = await admin.get(key).catch(() => null);
          if (text === null) continue;
          const { pid } = JSON.parse(text) as { pid: number };
          this.#processes.set(id, nameOfWorker(pid));
        }
      }
    }
  }
}

/** Resolves when it can be asked. What is asked of it while it is away fails at once. */
export async function memberOf(server: RedisServer): Promise<Member> {
  const admin = new Redis(server.url, {
    retryStrategy: () => 50,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  });
  admin.on('error', () => {}); // servers are taken away on purpose
  await once(admin, 'ready');
  return { server, admin };
}

/** Whether it is a master, or a replica that is connected to one. Rejects if it does not answer. */
export async function roleOf({ admin }: Member): Promise<Pick<Look, 'isMaster' | 'isLinked'>> {
  const info = await admin.info('replication');
  return {
    isMaster: info.includes('role:master'),
    isLinked: info.includes('master_link_status:up'),
  };
}

/**
 * What can happen to masters that have a replica each. What a replica did not know when it took its master's place is
 * written down by the stage, whatever the reason was.
 */
export const MASTER_FAULTS: Faults<WatchedStage> = {
  'master killed': failover(async (scene, master) => {
    const { stage, random } = scene;
    await noted(scene, { disturbs: stage.disturbedWithout(master) }, async () => {
      await master.server.kill();
      await stage.replaced(master);
    });
    await sleep(random.between(0, 2_000));
    await master.server.restart();
  }),
  /** When it goes on, it has commands on its way, and does not know that there is another master. */
  'master stopped': failover(async (scene, master) => {
    const { stage, random } = scene;
    let goOn = (): void => {};
    await noted(scene, { disturbs: stage.disturbedWithout(master) }, async () => {
      goOn = standStill(master.server);
      await stage.replaced(master);
    });
    await sleep(random.between(0, 2_000));
    goOn();
  }),
};

/** A planned failover. */
export const failoverInOrder = failover((scene, master) =>
  noted(scene, { disturbs: serverOf(master.keys) }, () => scene.stage.failOver(master)),
);

/** Begins when every master has its replica, and ends when that is so again. */
function failover(
  act: (scene: Scene<WatchedStage>, master: Master) => Promise<void>,
): Fault<Scene<WatchedStage>> {
  return async (scene) => {
    const { stage, random } = scene;
    await stage.settled();
    await act(scene, random.pick(stage.masters));
    await stage.tidyUp(random);
    await stage.settled();
  };
}
