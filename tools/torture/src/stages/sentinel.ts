import { RedisReplicaSet, type RedisServer } from 'dev-servers';
import type { SeededRandom } from 'kit';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Faults, noted } from '../faults/fault.js';
import type { EntryKinds } from '../history/entry.js';
import { type HistoryFile, monotonicMs } from '../history/history-file.js';
import { EVERY_KEY } from '../keys.js';
import type { RedisAddress } from './redis-address.js';
import type { Master, Member } from './stage.js';
import {
  failoverInOrder,
  type Look,
  MASTER_FAULTS,
  memberOf,
  POLL_MS,
  roleOf,
  WatchedStage,
} from './watched.js';

/** Longer than the pauses after which a master is to be in its place still. */
const DOWN_AFTER_MS = 2_000;

/** The sentinels may name a server a moment before it is told that it is the master. */
const MISNAMED_AFTER_MS = 200;

/** A master, its replica, and three sentinels, which the workers ask for the master. */
export class SentinelStage extends WatchedStage {
  /** For each member the latest run of its server in which it was a replica, or was named as the master. */
  readonly #appointed = new Map<Member, number>();

  private constructor(
    readonly set: RedisReplicaSet,
    members: readonly Member[],
    history: HistoryFile<EntryKinds>,
  ) {
    super(members, history);
  }

  static async start(history: HistoryFile<EntryKinds>): Promise<SentinelStage> {
    const set = await RedisReplicaSet.start({ downAfterMs: DOWN_AFTER_MS });
    const members = await Promise.all(set.servers.map(memberOf));
    const stage = await new SentinelStage(set, members, history).watch();
    stage.loops.push(stage.#watchName());
    return stage;
  }

  override get masters(): readonly Master[] {
    return super.masters.map((master) => ({ ...master, keys: 'all' }));
  }

  addressFor(): RedisAddress {
    return { sentinels: this.set.sentinels, name: this.set.name };
  }

  /** The old master goes on for ten seconds, for those who do not listen to the sentinels. */
  async failOver(): Promise<void> {
    await this.set.failOver();
  }

  async replaced({ server }: Master): Promise<void> {
    await this.set.successorOf(server);
  }

  /**
   * What an operator can do before the sentinels do it, which takes them ten seconds: the old master follows. Not while
   * they make another one the master: it might be this one.
   */
  async tidyUp(random: SeededRandom): Promise<void> {
    if (random.chance(0.5)) return;
    await sleep(random.between(0, 3_000));
    if (await this.set.isFailingOver()) return;
    const [master] = this.masters as [Master];
    await this.#replica.admin.replicaof('127.0.0.1', String(master.server.port));
  }

  disturbedWithout(): 'all' {
    return 'all';
  }

  /** Resolves when the server that is not the master follows the one that is. */
  async settled(): Promise<void> {
    for (;;) {
      const role = await roleOf(this.#replica).catch(() => undefined);
      if (role?.isMaster === false && role.isLinked) return;
      await sleep(POLL_MS);
    }
  }

  override async stop(): Promise<void> {
    await super.stop();
    await this.set.stop();
  }

  protected async isNamed({ server }: Member): Promise<void> {
    await this.set.successorOf(this.set.servers.find((one) => one !== server) as RedisServer);
  }

  /**
   * A server that was restarted says that it is a master until it is told whom to follow. It has nothing, nobody asks
   * it, and if the sentinels name it all the same, it is a replica that is promoted and knows of no lease.
   */
  protected async look(member: Member): Promise<Look> {
    const { isMaster, isLinked } = await roleOf(member);
    const { pid } = member.server;
    const isAppointed =
      !isMaster || this.#appointed.get(member) === pid || (await this.set.isNamed(member.server));
    if (isAppointed) this.#appointed.set(member, pid);
    const whole = { keys: EVERY_KEY, epoch: 0, isServing: true };
    return { isMaster: isMaster && isAppointed, isLinked, ...whole };
  }

  get #replica(): Member {
    const [master] = this.masters;
    return this.members.find(({ server }) => server !== master?.server) as Member;
  }

  /**
   * While the sentinels name a server that is a replica, nobody finds a master. One of them, which still thinks of the
   * failover before, may have made the new master a replica again, and it takes them 20 s to find that out.
   */
  async #watchName(): Promise<void> {
    let at: number | undefined;
    const noteEnd = (): void => {
      const until = monotonicMs();
      if (at !== undefined && until - at > MISNAMED_AFTER_MS) {
        const fault = { name: 'sentinels name a replica', until, disturbs: 'all' } as const;
        this.history.note('fault', fault, at);
      }
      at = undefined;
    };
    for (; this.isRunning; await sleep(POLL_MS)) {
      const isMisnamed = await this.#isMisnamed().catch(() => undefined); // it is away: another fault
      if (isMisnamed === true) at ??= monotonicMs();
      if (isMisnamed === false) noteEnd();
    }
    noteEnd();
  }

  async #isMisnamed(): Promise<boolean> {
    return !(await roleOf(this.memberOf(await this.set.master()))).isMaster;
  }
}

/** What can happen to servers that sentinels watch. */
export const SENTINEL_FAULTS: Faults<SentinelStage> = {
  'sentinels fail over': failoverInOrder,
  ...MASTER_FAULTS,
  /** The other two are enough, and nothing at all may be noticed of it. */
  'sentinel killed': (scene) =>
    noted(scene, { disturbs: 'nothing' }, async () => {
      const { random, stage } = scene;
      const sentinel = random.pick(stage.set.watchers);
      await sentinel.kill();
      await sleep(random.between(100, 2_500));
      await sentinel.restart();
    }),
};
