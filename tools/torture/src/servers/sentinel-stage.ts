import { RedisReplicaSet, type RedisServer } from 'dev-servers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { HistoryFile } from '../history/history-file.js';
import { monotonicMs } from '../history/monotonic-ms.js';
import { EVERY_KEY } from '../keys.js';
import { type Look, type Member, memberOf, roleOf } from './member.js';
import { Promotions } from './promotions.js';
import type { RedisAddress } from './redis-address.js';
import type { Master, Stage } from './stage.js';

/** Longer than the pauses after which a master is to be in its place still. */
const DOWN_AFTER_MS = 2_000;
const POLL_MS = 50;

/** The sentinels may name a server a moment before it is told that it is the master. */
const MISNAMED_AFTER_MS = 200;

const MISNAMED = 'sentinels name a replica';

/** A master, its replica, and three sentinels, which the workers ask for the master. */
export class SentinelStage implements Stage {
  readonly kind = 'sentinel';
  readonly set: RedisReplicaSet;
  readonly #members: readonly Member[];
  readonly #promotions: Promotions;
  readonly #history: HistoryFile;
  readonly #watching: Promise<void>;
  #isRunning = true;
  /** For each member the latest run of its server in which it was a replica, or was named as the master. */
  readonly #appointed = new Map<Member, number>();

  private constructor(set: RedisReplicaSet, members: readonly Member[], history: HistoryFile) {
    this.set = set;
    this.#members = members;
    this.#history = history;
    this.#promotions = new Promotions({
      members,
      history,
      look: (member) => this.#look(member),
      isNamed: async ({ server }) => {
        const other = set.servers.find((one) => one !== server) as RedisServer;
        await set.successorOf(other);
      },
    });
    this.#watching = this.#watchName();
  }

  static async start(history: HistoryFile): Promise<SentinelStage> {
    const set = await RedisReplicaSet.start({ downAfterMs: DOWN_AFTER_MS });
    const members = await Promise.all(set.servers.map(memberOf));
    const stage = new SentinelStage(set, members, history);
    await stage.#promotions.start();
    return stage;
  }

  get masters(): readonly Master[] {
    return this.#promotions.masters.map((master) => ({ ...master, keys: 'all' }));
  }

  addressFor(): RedisAddress {
    return { kind: 'sentinels', sentinels: this.set.sentinels, name: this.set.name };
  }

  get #replica(): Member {
    const [master] = this.masters;
    return this.#members.find(({ server }) => server !== master?.server) as Member;
  }

  /**
   * What an operator can do before the sentinels do it, which takes them ten seconds: the old master follows. Not while
   * they make another one the master: it might be this one.
   */
  async demoteOldMaster(): Promise<void> {
    if (await this.set.isFailingOver()) return;
    const [master] = this.masters as [Master];
    await this.#replica.admin.replicaof('127.0.0.1', String(master.server.port));
  }

  /** Resolves when the server that is not the master follows the one that is. */
  async settled(): Promise<void> {
    for (;;) {
      const role = await roleOf(this.#replica).catch(() => undefined);
      if (role?.isMaster === false && role.isLinked) return;
      await sleep(POLL_MS);
    }
  }

  /**
   * A server that was restarted says that it is a master until it is told whom to follow. It has nothing, nobody asks
   * it, and if the sentinels name it all the same, it is a replica that is promoted and knows of no lease.
   */
  async #look(member: Member): Promise<Look> {
    const { isMaster, isLinked } = await roleOf(member);
    const { pid } = member.server;
    const isAppointed =
      !isMaster || this.#appointed.get(member) === pid || (await this.set.isNamed(member.server));
    if (isAppointed) this.#appointed.set(member, pid);
    return {
      isMaster: isMaster && isAppointed,
      isLinked,
      keys: EVERY_KEY,
      epoch: 0,
      isServing: true,
    };
  }

  /**
   * While the sentinels name a server that is a replica, nobody finds a master. One of them, which still thinks of the
   * failover before, may have made the new master a replica again, and it takes them 20 s to find that out.
   */
  async #watchName(): Promise<void> {
    let at: number | undefined;
    const noteEnd = (): void => {
      const until = monotonicMs();
      if (at !== undefined && until - at > MISNAMED_AFTER_MS)
        this.#history.append({ kind: 'fault', name: MISNAMED, at, until, disturbs: 'all' });
      at = undefined;
    };
    for (; this.#isRunning; await sleep(POLL_MS)) {
      const isMisnamed = await this.#isMisnamed().catch(() => undefined); // it is away: another fault
      if (isMisnamed === true) at ??= monotonicMs();
      if (isMisnamed === false) noteEnd();
    }
    noteEnd();
  }

  async #isMisnamed(): Promise<boolean> {
    const master = await this.set.master();
    const named = this.#members.find(({ server }) => server === master) as Member;
    return !(await roleOf(named)).isMaster;
  }

  async stop(): Promise<void> {
    this.#isRunning = false;
    await this.#watching;
    await this.#promotions.stop();
    await this.set.stop();
  }
}
