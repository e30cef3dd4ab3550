import { equal, notEqual, ok } from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LockMode } from '../../libs/nestjs-locked/src/core/lock-mode.js';
import type { HolderAnswer } from '../../libs/nestjs-locked/src/core/store/holder-question.js';
import { leaseToken, newProcessId } from '../../libs/nestjs-locked/src/core/store/lease-token.js';
import type {
  Granted,
  LockStore,
  Queued,
  StoreMessage,
} from '../../libs/nestjs-locked/src/core/store/lock-store.js';

/** Two processes that have opened the same store. The suite uses separate keys for each case. */
export interface ContractStores {
  /** The first process. */
  readonly a: ContractStore;
  /** The second process. */
  readonly b: ContractStore;
}

/** One process: its store, and the messages it has received. */
export interface ContractStore {
  /** The store under test, as this process sees it. */
  readonly store: LockStore;
  /** The messages that this process has received, oldest first. The suite removes those that it has read. */
  readonly inbox: StoreMessage[];
}

export const LEASE_MS = 2_000;
/** The lease in cases that set something up while the lock is held. */
export const LONG_MS = 60_000;
const ARRIVAL_MS = 5_000;
/** A process in a case. It creates tokens and requests leases with them. */
export class Party {
  readonly store: LockStore;
  readonly inbox: StoreMessage[];
  readonly #key: string;
  #count = Date.now() * 1_000 + Math.floor(Math.random() * 1e9);

  constructor({ store, inbox }: ContractStore, key: string) {
    this.store = store;
    this.inbox = inbox;
    this.#key = key;
  }

  /** The same process with another key. */
  at(key: string): Party {
    return new Party(this, key);
  }

  token(): string {
    return `${this.store.processId}:${++this.#count}`;
  }

  /** A token that shares its lease with other readers. */
  reader(): string {
    return `${this.token()}s`;
  }

  async reads(leaseMs = LEASE_MS): Promise<Granted> {
    const reply = await this.ask(this.reader(), { leaseMs });
    equal(reply.kind, 'granted');
    return reply;
  }

  async waitsToRead(): Promise<Queued> {
    const reply = await this.ask(this.reader());
    equal(reply.kind, 'queued');
    return reply;
  }

  /** A token that takes so many permits of so many. */
  permit(permits: number, weight = 1): string {
    return `${this.token()}p${weight}/${permits}`;
  }

  /** Gets a permit at once. */
  async admitted(permits: number, weight = 1, leaseMs = LEASE_MS): Promise<Granted> {
    const reply = await this.ask(this.permit(permits, weight), { leaseMs });
    equal(reply.kind, 'granted');
    return reply;
  }

  /** Waits for a permit. */
  async waitsForPermit(permits: number, weight = 1): Promise<Queued> {
    const reply = await this.ask(this.permit(permits, weight));
    equal(reply.kind, 'queued');
    return reply;
  }

  async acquired(leaseMs = LEASE_MS): Promise<Granted> {
    const reply = await this.ask(this.token(), { leaseMs });
    equal(reply.kind, 'granted');
    return reply;
  }

  async queued(): Promise<Queued> {
    const reply = await this.ask(this.token());
    equal(reply.kind, 'queued');
    return reply;
  }

  ask(token: string, options: { nowait?: boolean; leaseMs?: number; position?: number } = {}) {
    const { nowait = false, leaseMs = LEASE_MS, position } = options;
    const command = { key: this.#key, token, leaseMs, nowait };
    return this.store.acquire(position === undefined ? command : { ...command, position });
  }

  /** Ends the lease without a release. The lock is free after the second for which `revoke` keeps it. */
  async lapse(): Promise<void> {
    notEqual(await this.store.inspector.revoke(this.#key), undefined);
    await sleep(1_100);
  }

  release(token: string, used: number, keepMs = 0) {
    return this.store.release({ key: this.#key, token, used, keepMs });
  }

  requeue(token: string, used: number, newToken: string, waitedMs = 0) {
    const leaseMs = LEASE_MS;
    return this.store.requeue({ key: this.#key, token, used, newToken, leaseMs, waitedMs });
  }

  /** The last attempt at the end of a wait. */
  tryOnceMore(token: string) {
    return this.store.leave({ key: this.#key, tokens: [token], leaseMs: LEASE_MS });
  }

  /** The start of a take-back command for a token that had a lease and is no longer used. */
  of(token: string) {
    return { key: this.#key, tokens: [token], used: 0 } as const;
  }

  /** Goes on with the lease of a token, as a new one. */
  adopt(token: string, used: number, newToken = this.token(), leaseMs = LEASE_MS) {
    return this.store.adopt({ key: this.#key, token, newToken, leaseMs, used });
  }

  async leave(token: string) {
    const [reply] = this.store.takeBack([{ key: this.#key, tokens: [token] }]);
    ok(reply !== undefined, 'takeBack() gives one reply for each command');
    return reply;
  }

  /** @param silent the first in the queue, which has stopped */
  recheck({ token, position }: Queued, silent?: string) {
    const newToken = `${this.token()}${/(?:s|p\d+\/\d+)?$/.exec(token)?.[0] ?? ''}`;
    const command = { key: this.#key, token, newToken, leaseMs: LEASE_MS, position };
    return this.store.recheck(silent === undefined ? command : { ...command, silent });
  }

  async renew(token: string, used: number, leaseMs = LEASE_MS, reserves = 10) {
    const command = { key: this.#key, token, leaseMs, used, reserves };
    const [reply] = this.store.renew([command]);
    ok(reply !== undefined, 'renew() gives one reply for each command');
    return reply;
  }

  /** Requests several locks at once, each with a new token. */
  askTogether(keys: readonly string[]) {
    return this.store.acquireTogether(
      keys.map((key) => ({ key, token: this.token(), leaseMs: LEASE_MS, nowait: true })),
    );
  }

  /** Appends this many waiters to the queue, each of a process that no longer exists. */
  async abandoned(count: number, mode: LockMode = 'exclusive'): Promise<void> {
    const asked = Array.from({ length: Math.min(count, 100) }, () =>
      this.ask(leaseToken(newProcessId(), 1, false, undefined, { mode })),
    );
    for (const { kind } of await Promise.all(asked)) equal(kind, 'queued');
    if (count > asked.length) await this.abandoned(count - asked.length, mode);
  }

  /** Waits for the next answer to a question of this process. */
  async answered(): Promise<HolderAnswer> {
    for (const end = performance.now() + ARRIVAL_MS; performance.now() < end; await sleep(5)) {
      const index = this.inbox.findIndex(({ kind }) => kind === 'answer');
      if (index >= 0) return this.inbox.splice(index, 1)[0] as HolderAnswer;
    }
    throw new Error(`no answer arrived within ${ARRIVAL_MS} ms`);
  }

  /** Waits for the next message of this kind about this lock. */
  async told<K extends MessageAboutLock['kind']>(
    kind: K,
  ): Promise<Extract<MessageAboutLock, { kind: K }>> {
    for (const end = performance.now() + ARRIVAL_MS; performance.now() < end; await sleep(5)) {
      const index = this.inbox.findIndex(
        (it) => it.kind === kind && 'key' in it && it.key === this.#key,
      );
      const [message] = index < 0 ? [] : this.inbox.splice(index, 1);
      if (message !== undefined) return message as Extract<MessageAboutLock, { kind: K }>;
    }
    throw new Error(`no '${kind}' arrived within ${ARRIVAL_MS} ms`);
  }
}

type MessageAboutLock = Exclude<StoreMessage, HolderAnswer>;

/** Rejects if the store violates it. */
export type Rule = (parties: { a: Party; b: Party; key: string }) => Promise<void>;
