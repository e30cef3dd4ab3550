import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault, KnownLease } from '../history/entry.js';
import type { HistoryFile } from '../history/history-file.js';
import { monotonicMs } from '../history/monotonic-ms.js';
import { nameOfWorker } from '../worker/worker-process.js';
import type { Look, Member } from './member.js';
import { type Master, serverOf } from './stage.js';

export interface PromotionsOptions {
  readonly members: readonly Member[];
  readonly history: HistoryFile;
  /** Asks a server about itself. Rejects if it does not answer. */
  readonly look: (member: Member) => Promise<Look>;
  /** Resolves when everybody who is asked for the master names this one. */
  readonly isNamed: (member: Member) => Promise<void>;
}

const EVERY_MS = 25;
const PROCESSES_EVERY_MS = 500;

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

/**
 * Watches servers that take each other's places, and writes down what each replica knew when it became master, and when
 * a master refused all commands, whatever the reason for it was: a fault of ours, or a machine that was so busy that a
 * master seemed dead.
 */
export class Promotions {
  readonly #options: PromotionsOptions;
  readonly #known = new Map<Member, Known>();
  /** The ids of lock services, and the processes that they belong to. */
  readonly #processes = new Map<string, string | undefined>();
  readonly #loops: Promise<void>[] = [];
  #isRunning = true;
  #promotions = 0;
  /** The replica that is to take over after it has got everything. */
  #inOrder: Member | undefined;

  constructor(options: PromotionsOptions) {
    this.#options = options;
  }

  /** Resolves when every member has been seen. */
  async start(): Promise<void> {
    const { members } = this.#options;
    await Promise.all(members.map((member) => this.#see(member)));
    this.#loops.push(...members.map((member) => this.#watch(member)), this.#learnProcesses());
  }

  async stop(): Promise<void> {
    this.#isRunning = false;
    await Promise.all(this.#loops);
    for (const member of this.#known.keys()) this.#noteRefusal(member, monotonicMs());
    for (const { admin } of this.#options.members) admin.disconnect();
  }

  /** The members that have keys, as far as can be known. */
  get masters(): readonly Master[] {
    const keys = new Map<Member, string[]>();
    for (const [key, owner] of this.#owners()) {
      keys.set(owner, [...(keys.get(owner) ?? []), key]);
    }
    return [...keys].map(([{ server, admin }, own]) => ({ server, admin, keys: own }));
  }

  /** Nothing may be forgotten when this replica becomes master. */
  mayNotForget(replica: Member): void {
    this.#inOrder = replica;
  }

  #owners(): Map<string, Member> {
    const owners = new Map<string, Member>();
    for (const [member, { look, promoted }] of this.#known) {
      if (!look.isMaster) continue;
      for (const key of look.keys) {
        const owner = owners.get(key);
        const other = owner === undefined ? undefined : this.#known.get(owner);
        const isLater =
          other === undefined ||
          look.epoch > other.look.epoch ||
          (look.epoch === other.look.epoch && promoted > other.promoted);
        if (isLater) owners.set(key, member);
      }
    }
    return owners;
  }

  async #watch(member: Member): Promise<void> {
    while (this.#isRunning) {
      await sleep(EVERY_MS);
      await this.#see(member).catch(() => {}); // it is away
    }
  }

  async #see(member: Member): Promise<void> {
    const at = monotonicMs();
    const look = await this.#options.look(member);
    const before = this.#known.get(member);
    const wasReplica = before?.look.isMaster === false;
    const isPromoted = wasReplica && look.isMaster;
    const isRefusing = look.isMaster && !look.isServing;
    if (!isRefusing) this.#noteRefusal(member, at);
    this.#known.set(member, {
      look,
      promoted: isPromoted ? ++this.#promotions : (before?.promoted ?? 0),
      seenAt: at,
      linkedAt: look.isMaster || look.isLinked ? at : (before?.linkedAt ?? at),
      refusesSince: isRefusing ? (before?.refusesSince ?? before?.seenAt ?? at) : undefined,
    });
    if (isPromoted) this.#loops.push(this.#note(member, look, before));
  }

  /** A former master, whose keys another one has by now, is nobody's concern. */
  #noteRefusal(member: Member, until: number): void {
    const at = this.#known.get(member)?.refusesSince;
    if (at === undefined) return;
    const owned = [...this.#owners()].filter(([, owner]) => owner === member);
    const disturbs = serverOf(owned.map(([key]) => key));
    this.#options.history.append({ kind: 'fault', name: 'master refuses', at, until, disturbs });
  }

  async #note(member: Member, { keys }: Look, { seenAt: at, linkedAt }: Known): Promise<void> {
    const isInOrder = this.#inOrder === member;
    if (isInOrder) this.#inOrder = undefined;
    const leases = Object.fromEntries(
      await Promise.all(keys.map(async (key) => [key, await this.#leaseOf(member, key)] as const)),
    );
    await this.#options.isNamed(member).catch(() => {}); // another one has taken its place
    const unknownTo = { cutAt: linkedAt, leases };
    const loss: Partial<Fault> = { forgets: { unknownTo }, notice: 'reconnect' };
    this.#options.history.append({
      kind: 'fault',
      name: isInOrder ? 'replica promoted in order' : 'replica promoted',
      at,
      until: monotonicMs(),
      disturbs: serverOf(keys),
      ...(isInOrder ? {} : loss),
    });
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
    while (this.#isRunning) {
      for (const { admin } of this.masters) {
        const keys = await admin.keys('lock:process:*').catch(() => []);
        for (const key of keys) {
          const id = key.slice('lock:process:'.length);
          if (this.#processes.has(id)) continue;
          const text = await admin.get(key).catch(() => null);
          if (text === null) continue;
          const { pid } = JSON.parse(text) as { pid: number };
          this.#processes.set(id, nameOfWorker(pid));
        }
      }
      await sleep(PROCESSES_EVERY_MS);
    }
  }
}
