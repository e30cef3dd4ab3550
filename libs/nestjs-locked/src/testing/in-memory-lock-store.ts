import { hostname } from 'node:os';
import { FENCE_BLOCK } from '../core/store/fence-block.js';
import type { HolderQuestion } from '../core/store/holder-question.js';
import { acceptanceLeaseMs, REVOKED_MS } from '../core/store/lease-timing.js';
import { isTokenOf, newProcessId, processIdOf } from '../core/store/lease-token.js';
import type {
  LockInspector,
  LockRecord,
  LockSurvey,
  SurveyedLock,
} from '../core/store/lock-inspector.js';
import type {
  AcquireCommand,
  AcquireReply,
  Busy,
  Granted,
  LeaveCommand,
  LeaveReply,
  LockStore,
  Queued,
  RecheckCommand,
  ReleaseCommand,
  ReleaseReply,
  RenewCommand,
  RenewReply,
  RequeueCommand,
  RequeueReply,
  StoreListener,
  TakeBackCommand,
  TakeBackReply,
} from '../core/store/lock-store.js';
import { globPattern } from './glob-pattern.js';
import type { Entry, InMemoryLocks, Waiter } from './in-memory-locks.js';

const LAPSED_MS = 60_000;

/** All stores in memory are in this one. */
const THIS_PROCESS = { host: hostname(), pid: process.pid };

/**
 * The store of unit tests: the rules of the Redis scripts, in memory. It passes the same contract suite. Its fencing
 * tokens grow only within the process.
 */
export class InMemoryLockStore implements LockStore, LockInspector {
  readonly inspector = this;
  readonly processId = newProcessId();
  readonly commandTimeoutMs = 1_000;
  readonly #shared: InMemoryLocks | (() => InMemoryLocks);
  readonly #acceptMs: number;
  #open = false;

  /** @param locks a function is called at each use */
  constructor(locks: InMemoryLocks | (() => InMemoryLocks), leaseMs: number) {
    this.#shared = locks;
    this.#acceptMs = acceptanceLeaseMs(leaseMs);
  }

  get #locks(): InMemoryLocks {
    return typeof this.#shared === 'function' ? this.#shared() : this.#shared;
  }

  listensFor(_key: string): boolean {
    return this.#open;
  }

  async open(listener: StoreListener): Promise<void> {
    this.#locks.subscribe(this.processId, (message) => listener.message(message));
    this.#open = true;
  }

  async close(): Promise<void> {
    this.#locks.unsubscribe(this.processId);
    this.#open = false;
  }

  async acquire({ key, token, leaseMs, nowait, position }: AcquireCommand): Promise<AcquireReply> {
    const entry = this.#locks.entry(key);
    return nowait
      ? this.#tryOnce(key, entry, token, leaseMs)
      : this.#take(key, entry, token, token, leaseMs, position);
  }

  async recheck({
    key,
    token,
    newToken,
    leaseMs,
    position,
  }: RecheckCommand): Promise<Granted | Queued> {
    return this.#take(key, this.#locks.entry(key), token, newToken, leaseMs, position);
  }

  renew(commands: readonly RenewCommand[]): Promise<RenewReply>[] {
    return commands.map(async ({ key, token, leaseMs, used, reserves }): Promise<RenewReply> => {
      const entry = this.#locks.entry(key);
      if (entry.lock?.token !== token) return { kind: 'lost' };
      entry.lock.expiresAt = Math.max(entry.lock.expiresAt, this.#locks.clock.now() + leaseMs);
      const blockEnd = reserves > 0 ? this.#reserve(used, reserves) : 0;
      return { kind: 'renewed', blockEnd, waiters: entry.queue.length };
    });
  }

  async acquireTogether(commands: readonly AcquireCommand[]): Promise<readonly AcquireReply[]> {
    const asked = commands.map((command) => ({
      ...command,
      entry: this.#locks.entry(command.key),
    }));
    const wereFree = asked.map(({ entry, token }) => this.#isFreeFor(entry, token));
    if (wereFree.every((wasFree) => wasFree)) {
      return asked.map(({ entry, token, leaseMs }) => this.#own(entry, token, leaseMs));
    }
    return asked.map(({ key, entry, token, leaseMs }, i) => {
      if (!wereFree[i]) return this.#tryOnce(key, entry, token, leaseMs);
      if (entry.lock !== undefined) this.#pass(key, entry); // requested twice, after another lease was lost
      return { kind: 'busy', remainingMs: 0, wasFree: true };
    });
  }

  async release({ key, token, keepMs = 0 }: ReleaseCommand): Promise<ReleaseReply> {
    const entry = this.#locks.entry(key);
    remove(entry, token);
    if (entry.lock?.token !== token) return { kind: 'lost' };
    this.#giveUp(key, entry, token, keepMs);
    return { kind: 'released' };
  }

  async requeue(command: RequeueCommand): Promise<RequeueReply> {
    const { key, token, newToken, leaseMs, waitedMs = 0 } = command;
    const entry = this.#locks.entry(key);
    remove(entry, token);
    if (entry.lock?.token !== token) {
      const reply = this.#take(key, entry, newToken, newToken, leaseMs, undefined);
      return { ...reply, wasLost: true };
    }
    entry.lock = undefined;
    const live = this.#living(entry);
    const position = waitedMs > 0 ? this.#locks.clock.now() - waitedMs : undefined;
    if (live[0] === undefined || (position !== undefined && position < live[0].position)) {
      return this.#grant(entry, newToken, leaseMs);
    }
    return this.#yield(key, entry, newToken, this.#join(entry, newToken, position), live);
  }

  async leave({ key, tokens, leaseMs }: LeaveCommand): Promise<LeaveReply> {
    const entry = this.#locks.entry(key);
    const own = this.#leaveQueue(entry, tokens);
    if (own !== undefined) return this.#own(entry, own, leaseMs);
    if (entry.lock === undefined) {
      const reply = this.#tryOnce(key, entry, tokens[0], leaseMs);
      if (reply.kind === 'granted') return reply;
    }
    return { kind: 'left' };
  }

  takeBack(commands: readonly TakeBackCommand[]): Promise<TakeBackReply>[] {
    return commands.map(async ({ key, tokens, keepMs = 0 }): Promise<TakeBackReply> => {
      const entry = this.#locks.entry(key);
      const own = this.#leaveQueue(entry, tokens);
      if (own !== undefined) this.#giveUp(key, entry, own, keepMs);
      else if (entry.lock === undefined && keepMs > 0) this.#keep(key, entry, tokens[0], keepMs);
      return { kind: 'left' };
    });
  }

  async inspect(key: string, mostWaiting = 0): Promise<LockRecord | undefined> {
    const { lock, queue } = this.#locks.entry(key);
    if (lock === undefined) return undefined;
    const isOurs = processIdOf(lock.token) !== undefined; // not the token that keeps the key after a lease
    return {
      key,
      value: lock.token,
      remainingMs: lock.expiresAt - this.#locks.clock.now(),
      waiters: queue.length,
      waitsHere: queue.some(({ token }) => isTokenOf(this.processId, token)),
      process: isOurs ? THIS_PROCESS : undefined,
      queue: queue.slice(0, mostWaiting).map(({ token, position }) => ({
        token,
        waitedMs: this.#waitedMs(position),
        process: THIS_PROCESS,
      })),
    };
  }

  async survey(pattern: string, most: number): Promise<LockSurvey> {
    const matches = globPattern(`{${pattern}}`);
    const found = this.#locks.keys().flatMap((key): [string, SurveyedLock][] => {
      const { lock, queue } = this.#locks.entry(key);
      const [first] = queue;
      if ((lock ?? first) === undefined || !matches(`{${key}}`)) return [];
      const waitedMs = first === undefined ? 0 : this.#waitedMs(first.position);
      return [[key, { value: lock?.token, waiters: queue.length, waitedMs }]];
    });
    return { locks: new Map(found.slice(0, most)), isPartial: found.length > most };
  }

  #waitedMs(position: number): number {
    return Math.max(0, this.#locks.clock.now() - position);
  }

  async *list(pattern: string): AsyncIterable<string> {
    // Redis stores a key in braces, and an unterminated class extends over the closing one.
    const matches = globPattern(`{${pattern}}`);
    for (const key of this.#locks.keys()) {
      if (matches(`{${key}}`) && this.#locks.entry(key).lock !== undefined) yield key;
    }
  }

  async ping(): Promise<void> {}

  async evictionPolicy(): Promise<undefined> {}

  async revoke(
    key: string,
    value?: string,
  ): Promise<Pick<LockRecord, 'value' | 'process'> | undefined> {
    const entry = this.#locks.entry(key);
    const holder = entry.lock?.token;
    const revoked = `revoked:${key}`;
    if (holder === undefined || holder === revoked) return undefined;
    if (value !== undefined && holder !== value) return undefined;
    this.#locks.tell({ kind: 'revoked', key, token: holder });
    entry.lock = { token: revoked, expiresAt: this.#locks.clock.now() + REVOKED_MS };
    this.#tellNext(key, this.#living(entry)[0], REVOKED_MS);
    return { value: holder, process: THIS_PROCESS };
  }

  async ask(key: string, id: string): Promise<string | undefined> {
    const token = this.#locks.entry(key).lock?.token;
    const asked = token && processIdOf(token);
    if (token === undefined || asked === undefined) return undefined;
    this.#locks.send(asked, { kind: 'question', key, token, from: this.processId, id });
    return token;
  }

  async answer({ from, id }: HolderQuestion, text: string): Promise<void> {
    this.#locks.send(from, { kind: 'answer', id, text });
  }

  #take(
    key: string,
    entry: Entry,
    old: string,
    me: string,
    leaseMs: number,
    keptPosition: number | undefined,
  ): Granted | Queued {
    const holder = entry.lock?.token;
    if (holder === me || holder === old) return this.#own(entry, holder, leaseMs);
    this.#noticeLapse(entry);
    const claimed = this.#locks.clock.now() < entry.lapsedUntil ? undefined : keptPosition;
    const before = positionOf(entry, old) ?? positionOf(entry, me) ?? claimed; // our own claim: it was sent twice
    if (holder !== undefined) {
      remove(entry, old);
      const position = this.#join(entry, me, before);
      this.#locks.tell({ kind: 'wanted', key, token: holder });
      return this.#queued(entry, me, position);
    }
    const live = this.#living(entry, old, me);
    remove(entry, old);
    remove(entry, me);
    if (live[0] === undefined || (before !== undefined && before <= live[0].position)) {
      return this.#grant(entry, me, leaseMs);
    }
    return this.#yield(key, entry, me, this.#join(entry, me, before), live);
  }

  /** Neither joins the queue nor overtakes a live waiter. */
  #tryOnce(key: string, entry: Entry, token: string, leaseMs: number): Granted | Busy {
    if (this.#isFreeFor(entry, token)) return this.#own(entry, token, leaseMs);
    if (entry.lock === undefined) this.#pass(key, entry);
    else this.#locks.tell({ kind: 'wanted', key, token: entry.lock.token });
    return { kind: 'busy', remainingMs: this.#remaining(entry), foreign: false };
  }

  #isFreeFor(entry: Entry, token: string): boolean {
    this.#noticeLapse(entry);
    if (entry.lock !== undefined) return entry.lock.token === token;
    return this.#living(entry).length === 0;
  }

  /** Detects that the last lease expired without a release: the lock is free although there is a queue. */
  #noticeLapse(entry: Entry): void {
    if (entry.lock !== undefined || entry.queue.length === 0) return;
    entry.lapsedUntil = this.#locks.clock.now() + LAPSED_MS;
  }

  /** Hands the free lock to the waiters ahead of the caller. */
  #yield(key: string, entry: Entry, me: string, position: number, live: Waiter[]): Queued {
    this.#handTo(key, entry, live);
    return this.#queued(entry, me, position);
  }

  #queued(entry: Entry, token: string, position: number): Queued {
    const remainingMs = this.#remaining(entry);
    return { kind: 'queued', token, position, remainingMs, foreign: false };
  }

  /** Takes the lock from its holder and grants it to the first live waiter. */
  #pass(key: string, entry: Entry): void {
    entry.lock = undefined;
    this.#handTo(key, entry, this.#living(entry));
  }

  /** The waiters with an inbox, except the given tokens. Drops the waiters without one. */
  #living(entry: Entry, ...mine: string[]): Waiter[] {
    const isMine = ({ token }: Waiter): boolean => mine.includes(token);
    entry.queue = entry.queue.filter((it) => isMine(it) || this.#locks.listens(it.token));
    return entry.queue.filter((it) => !isMine(it));
  }

  #handTo(key: string, entry: Entry, [waiter, next]: Waiter[]): void {
    if (waiter === undefined) return;
    remove(entry, waiter.token);
    const granted = this.#grant(entry, waiter.token, this.#acceptMs);
    this.#locks.tell({ ...granted, kind: 'grant', key, acceptMs: this.#acceptMs });
    this.#tellNext(key, next, this.#acceptMs);
  }

  #tellNext(key: string, waiter: Waiter | undefined, ms: number): void {
    if (waiter !== undefined) this.#locks.tell({ kind: 'head', key, token: waiter.token, ms });
  }

  /** Grants a lock that is free or already this token's, whose lease is never shortened. */
  #own(entry: Entry, token: string, leaseMs: number): Granted {
    return this.#grant(entry, token, Math.max(leaseMs, this.#remaining(entry)));
  }

  #grant(entry: Entry, token: string, leaseMs: number): Granted {
    const blockEnd = this.#reserve(0, FENCE_BLOCK);
    entry.lock = { token, expiresAt: this.#locks.clock.now() + leaseMs };
    const fence = blockEnd - FENCE_BLOCK + 1;
    return { kind: 'granted', token, fence, blockEnd, waiters: entry.queue.length };
  }

  /** @param used the number after which `count` are reserved; 0 = they are above all others */
  #reserve(used: number, count: number): number {
    const locks = this.#locks;
    const before = Math.max(locks.fence, Math.floor(locks.clock.wallNow() * 1_000) - 1);
    locks.fence = used === 0 ? before + count : Math.max(locks.fence, used + count);
    return locks.fence;
  }

  /** @returns the token that has the lock, if it is one of these */
  #leaveQueue(entry: Entry, tokens: readonly [string, string?]): string | undefined {
    for (const token of tokens) if (token !== undefined) remove(entry, token);
    return tokens.find((token) => token !== undefined && token === entry.lock?.token);
  }

  /** Grants the lock to the next live waiter, or keeps it from everybody for `keepMs`. */
  #giveUp(key: string, entry: Entry, token: string, keepMs: number): void {
    entry.lock = undefined;
    if (keepMs === 0) return this.#pass(key, entry);
    this.#keep(key, entry, token, keepMs);
  }

  #keep(key: string, entry: Entry, token: string, keepMs: number): void {
    entry.lock = { token: `kept:${token}`, expiresAt: this.#locks.clock.now() + keepMs };
    this.#tellNext(key, this.#living(entry)[0], keepMs);
  }

  #join(entry: Entry, token: string, claimed?: number): number {
    const position =
      claimed ?? Math.max(this.#locks.clock.now(), (entry.queue.at(-1)?.position ?? 0) + 1);
    remove(entry, token);
    entry.queue.push({ token, position });
    entry.queue.sort((a, b) => a.position - b.position);
    return position;
  }

  #remaining(entry: Entry): number {
    return Math.max(0, (entry.lock?.expiresAt ?? 0) - this.#locks.clock.now());
  }
}

/** @returns the token's position, if it was in the queue */
function positionOf({ queue }: Entry, token: string): number | undefined {
  return queue.find((waiter) => waiter.token === token)?.position;
}

function remove({ queue }: Entry, token: string): void {
  const index = queue.findIndex((waiter) => waiter.token === token);
  if (index >= 0) queue.splice(index, 1);
}
