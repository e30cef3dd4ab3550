import { hostname } from 'node:os';
import { globPattern } from '../core/runtime/glob-pattern.js';
import { FENCE_BLOCK } from '../core/store/fence-block.js';
import {
  type Asked,
  type HolderQuestion,
  MOST_HOLDERS_ASKED,
} from '../core/store/holder-question.js';
import { acceptanceLeaseMs, REVOKED_MS } from '../core/store/lease-timing.js';
import {
  isTokenOf,
  modeOf,
  newProcessId,
  processIdOf,
  termsOf,
} from '../core/store/lease-token.js';
import type {
  HolderRecord,
  LockInspector,
  LockRecord,
  LockSurvey,
  SurveyedLock,
} from '../core/store/lock-inspector.js';
import type {
  AcquireCommand,
  AcquireReply,
  AdoptCommand,
  AdoptReply,
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
import { leasesIn, tokensIn } from '../core/store/shared-value.js';
import type { Entry, Holder, InMemoryLocks, Waiter } from './in-memory-locks.js';

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
    silent,
  }: RecheckCommand): Promise<Granted | Queued> {
    const entry = this.#locks.entry(key);
    const mayDrop = areJoint(entry);
    if (silent !== undefined && mayDrop && entry.queue[0]?.token === silent) remove(entry, silent);
    return this.#take(key, entry, token, newToken, leaseMs, position);
  }

  renew(commands: readonly RenewCommand[]): Promise<RenewReply>[] {
    return commands.map(async ({ key, token, leaseMs, used, reserves }): Promise<RenewReply> => {
      const entry = this.#locks.entry(key);
      const holder = holderWith(entry, token);
      if (holder === undefined) return { kind: 'lost' };
      holder.expiresAt = Math.max(holder.expiresAt, this.#locks.clock.now() + leaseMs);
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
      if (entry.holders.length > 0) this.#pass(key, entry); // requested twice, after another lease was lost
      return { kind: 'busy', remainingMs: 0, wasFree: true };
    });
  }

  async adopt({ key, token, newToken, leaseMs, used }: AdoptCommand): Promise<AdoptReply> {
    const entry = this.#locks.entry(key);
    if (holderWith(entry, newToken) !== undefined) return this.#own(entry, newToken, leaseMs);
    if (holderWith(entry, token) === undefined) return { kind: 'lost' };
    entry.holders = [];
    this.#locks.fence = Math.max(this.#locks.fence, used);
    return this.#grant(entry, newToken, leaseMs);
  }

  async release({ key, token, keepMs = 0 }: ReleaseCommand): Promise<ReleaseReply> {
    const entry = this.#locks.entry(key);
    remove(entry, token);
    if (holderWith(entry, token) === undefined) return { kind: 'lost' };
    this.#giveUp(key, entry, token, keepMs);
    return { kind: 'released' };
  }

  async requeue(command: RequeueCommand): Promise<RequeueReply> {
    const { key, token, newToken, leaseMs, waitedMs = 0 } = command;
    const entry = this.#locks.entry(key);
    remove(entry, token);
    if (holderWith(entry, token) === undefined) {
      const reply = this.#take(key, entry, newToken, newToken, leaseMs, undefined);
      return { ...reply, wasLost: true };
    }
    const others = entry.holders.filter((holder) => holder.token !== token);
    entry.holders = others;
    if (others.length > 0) {
      this.#letIn(key, entry);
      return this.#take(key, entry, newToken, newToken, leaseMs, undefined);
    }
    const live = this.#living(entry);
    const position = waitedMs > 0 ? this.#locks.clock.now() - waitedMs : undefined;
    if (live[0] === undefined || (position !== undefined && position < live[0].position)) {
      return this.#grant(entry, newToken, leaseMs);
    }
    const joined = this.#join(entry, newToken, position);
    this.#handTo(key, entry, live);
    return this.#queued(entry, newToken, joined);
  }

  async leave({ key, tokens, leaseMs }: LeaveCommand): Promise<LeaveReply> {
    const entry = this.#locks.entry(key);
    const own = this.#leaveQueue(entry, tokens);
    if (own !== undefined) return this.#own(entry, own, leaseMs);
    const reply = isOpenTo(entry.holders, tokens[0])
      ? this.#tryOnce(key, entry, tokens[0], leaseMs)
      : undefined;
    if (reply?.kind === 'granted') return reply;
    this.#letIn(key, entry);
    return { kind: 'left' };
  }

  takeBack(commands: readonly TakeBackCommand[]): Promise<TakeBackReply>[] {
    return commands.map(async ({ key, tokens, keepMs = 0 }): Promise<TakeBackReply> => {
      const entry = this.#locks.entry(key);
      const own = this.#leaveQueue(entry, tokens);
      if (own !== undefined) this.#giveUp(key, entry, own, keepMs);
      else if (entry.holders.length > 0) this.#letIn(key, entry);
      else if (keepMs > 0) this.#keep(key, entry, tokens[0], keepMs);
      return { kind: 'left' };
    });
  }

  async inspect(key: string, mostWaiting = 0): Promise<LockRecord | undefined> {
    const { holders, queue } = this.#locks.entry(key);
    const value = valueOf(holders);
    if (value === undefined) return undefined;
    return {
      key,
      value,
      remainingMs: this.#remaining({ holders }),
      waiters: queue.length,
      waitsHere: queue.filter(({ token }) => isTokenOf(this.processId, token)).length,
      holders: holdersIn(value).slice(0, Math.max(1, mostWaiting)),
      queue: queue.slice(0, mostWaiting).map(({ token, position }) => ({
        token,
        waitedMs: this.#waitedMs(position),
        process: THIS_PROCESS,
      })),
    };
  }

  async survey(patterns: readonly string[], most: number): Promise<LockSurvey[]> {
    return patterns.map((pattern) => this.#survey(pattern, most));
  }

  #survey(pattern: string, most: number): LockSurvey {
    const matches = globPattern(`{${pattern}}`);
    const found = this.#locks.keys().flatMap((key): [string, SurveyedLock][] => {
      const { holders, queue } = this.#locks.entry(key);
      const [first] = queue;
      const value = valueOf(holders);
      if ((value ?? first) === undefined || !matches(`{${key}}`)) return [];
      const waitedMs = first === undefined ? 0 : this.#waitedMs(first.position);
      return [[key, { value, waiters: queue.length, waitedMs }]];
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
      if (matches(`{${key}}`) && this.#locks.entry(key).holders.length > 0) yield key;
    }
  }

  async ping(): Promise<void> {}

  async evictionPolicy(): Promise<undefined> {}

  async revoke(
    key: string,
    value?: string,
  ): Promise<Pick<LockRecord, 'value' | 'holders'> | undefined> {
    const entry = this.#locks.entry(key);
    const held = valueOf(entry.holders);
    const revoked = `revoked:${key}`;
    if (held === undefined || held === revoked) return undefined;
    if (value !== undefined && leasesIn(held) !== leasesIn(value)) return undefined;
    for (const { token } of entry.holders) this.#locks.tell({ kind: 'revoked', key, token });
    entry.holders = [{ token: revoked, expiresAt: this.#locks.clock.now() + REVOKED_MS }];
    this.#tellNext(key, this.#living(entry)[0], REVOKED_MS);
    return { value: held, holders: holdersIn(held) };
  }

  async ask(key: string, id: string): Promise<readonly Asked[]> {
    const { holders, queue } = this.#locks.entry(key);
    const ours = holders.map(({ token }) => token).filter((token) => processIdOf(token));
    const [head] = queue;
    const isWanted = head !== undefined && !isReader(head.token) && this.#locks.listens(head.token);
    return ours.slice(0, MOST_HOLDERS_ASKED).map((token, i) => {
      const question = { key, token, from: this.processId, id: `${id}.${i + 1}` };
      this.#locks.send(processIdOf(token), { kind: 'question', ...question });
      const isHeard = this.#locks.listens(token);
      return { token, id: question.id, isHeard, keepsOut: isWanted || !isReader(token) };
    });
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
    const mine = [me, old].find((token) => holderWith(entry, token) !== undefined);
    if (mine !== undefined) return this.#own(entry, mine, leaseMs);
    this.#noticeLapse(entry);
    const claimed = this.#locks.clock.now() < entry.lapsedUntil ? undefined : keptPosition;
    const before = positionOf(entry, old) ?? positionOf(entry, me) ?? claimed; // our own claim: it was sent twice
    const live = isOpenTo(entry.holders, me) ? this.#living(entry, old, me) : undefined;
    remove(entry, old);
    if (live !== undefined && isTurnOf(me, before, live[0])) {
      remove(entry, me);
      return this.#grantBeside(key, entry, me, leaseMs);
    }
    const position = this.#join(entry, me, before);
    if (live !== undefined && entry.holders.length === 0) this.#handTo(key, entry, live);
    else this.#askFor(key, entry);
    this.#letIn(key, entry);
    return this.#queued(entry, me, position);
  }

  /** Neither joins the queue nor overtakes a live waiter. */
  #tryOnce(key: string, entry: Entry, token: string, leaseMs: number): Granted | Busy {
    if (this.#isFreeFor(entry, token)) {
      if (holderWith(entry, token) !== undefined) return this.#own(entry, token, leaseMs);
      return this.#grantBeside(key, entry, token, leaseMs);
    }
    if (entry.holders.length === 0) this.#pass(key, entry);
    else {
      this.#letIn(key, entry);
      this.#askFor(key, entry);
    }
    return { kind: 'busy', remainingMs: this.#remaining(entry), foreign: false };
  }

  #isFreeFor(entry: Entry, token: string): boolean {
    this.#noticeLapse(entry);
    if (holderWith(entry, token) !== undefined) return true;
    return isOpenTo(entry.holders, token) && isTurnOf(token, undefined, this.#living(entry)[0]);
  }

  /** A permit is given back after each call, so nobody need be asked for it. */
  #askFor(key: string, { holders }: Entry): void {
    for (const { token } of holders)
      if (!isPermit(token)) this.#locks.tell({ kind: 'wanted', key, token });
  }

  /** Detects that the last lease expired without a release: the lock is free although there is a queue. */
  #noticeLapse(entry: Entry): void {
    if (entry.holders.length > 0 || entry.queue.length === 0) return;
    entry.lapsedUntil = this.#locks.clock.now() + LAPSED_MS;
  }

  #queued(entry: Entry, token: string, position: number): Queued {
    const ends = entry.holders.map(({ expiresAt }) => expiresAt - this.#locks.clock.now());
    const isOneEnough = isPermit(token) && entry.holders.some((it) => isPermit(it.token));
    const remainingMs = isOneEnough ? Math.max(0, Math.min(...ends)) : this.#remaining(entry);
    const reply = { kind: 'queued', token, position, remainingMs, foreign: false } as const;
    const head = entry.queue[0]?.token;
    const isBehind = head !== undefined && head !== token;
    const own = termsOf(token)?.permits;
    const permits = entry.holders
      .map((it) => termsOf(it.token)?.permits)
      .findLast((its) => isOneEnough && its !== undefined && its !== own);
    return {
      ...reply,
      ...(isBehind && areJoint(entry) && { head }),
      ...(permits !== undefined && { permits }),
    };
  }

  /** Takes the lock from its holder and grants it to the first live waiter. */
  #pass(key: string, entry: Entry): void {
    entry.holders = [];
    this.#handTo(key, entry, this.#living(entry));
  }

  /** Called when a holder or a waiter has gone: perhaps it kept out others that may have the key together. */
  #letIn(key: string, entry: Entry): void {
    for (;;) {
      const [head] = this.#living(entry);
      if (!areJoint(entry) || head === undefined || !isOpenTo(entry.holders, head.token)) return;
      if (isReader(head.token)) return this.#admitReaders(key, entry);
      remove(entry, head.token);
      this.#grantByMessage(key, entry, head.token);
    }
  }

  /** The waiters with an inbox, except the given tokens. Drops the waiters without one. */
  #living(entry: Entry, ...mine: string[]): Waiter[] {
    const isMine = ({ token }: Waiter): boolean => mine.includes(token);
    entry.queue = entry.queue.filter((it) => isMine(it) || this.#locks.listens(it.token));
    return entry.queue.filter((it) => !isMine(it));
  }

  #handTo(key: string, entry: Entry, [waiter, next]: Waiter[]): void {
    if (waiter === undefined) return;
    if (isReader(waiter.token)) {
      this.#admitReaders(key, entry);
      return this.#tellNext(key, entry.queue[0], this.#acceptMs);
    }
    remove(entry, waiter.token);
    this.#grantByMessage(key, entry, waiter.token);
    this.#letIn(key, entry);
    this.#tellNext(key, isPermit(waiter.token) ? entry.queue[0] : next, this.#acceptMs);
  }

  /** Lets in all readers that wait and listen. */
  #admitReaders(key: string, entry: Entry): void {
    const readers = entry.queue.filter(
      ({ token }) => isReader(token) && this.#locks.listens(token),
    );
    for (const { token } of readers) remove(entry, token);
    for (const { token } of readers) this.#grantByMessage(key, entry, token);
  }

  #grantByMessage(key: string, entry: Entry, token: string): void {
    const granted = this.#grant(entry, token, this.#acceptMs);
    this.#locks.tell({ ...granted, kind: 'grant', key, acceptMs: this.#acceptMs });
  }

  /** The turn of a reader is the turn of all that wait, and there may be room for more permits. */
  #grantBeside(key: string, entry: Entry, token: string, leaseMs: number): Granted {
    const granted = this.#grant(entry, token, leaseMs);
    if (isReader(token)) this.#admitReaders(key, entry);
    else this.#letIn(key, entry);
    return { ...granted, waiters: entry.queue.length };
  }

  #tellNext(key: string, waiter: Waiter | undefined, ms: number): void {
    if (waiter !== undefined) this.#locks.tell({ kind: 'head', key, token: waiter.token, ms });
  }

  /** Grants again what the token has, whose lease is never shortened. */
  #own(entry: Entry, token: string, leaseMs: number): Granted {
    const leftMs = (holderWith(entry, token)?.expiresAt ?? 0) - this.#locks.clock.now();
    return this.#grant(entry, token, Math.max(leaseMs, leftMs));
  }

  /** Beside those that have the lock together with this one. */
  #grant(entry: Entry, token: string, leaseMs: number): Granted {
    const blockEnd = this.#reserve(0, FENCE_BLOCK);
    const others = entry.holders.filter((holder) => holder.token !== token);
    const expiresAt = this.#locks.clock.now() + leaseMs;
    const slot = isPermit(token) ? (holderWith(entry, token)?.slot ?? freeSlot(others)) : undefined;
    entry.holders = [
      ...others,
      slot === undefined ? { token, expiresAt } : { token, expiresAt, slot },
    ];
    const fence = blockEnd - FENCE_BLOCK + 1;
    const granted = {
      kind: 'granted',
      token,
      fence,
      blockEnd,
      waiters: entry.queue.length,
    } as const;
    return slot === undefined ? granted : { ...granted, slot };
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
    return tokens.find((token) => token !== undefined && holderWith(entry, token) !== undefined);
  }

  /** Grants the lock to the next live waiter, or keeps it from everybody for `keepMs`, unless others read on. */
  #giveUp(key: string, entry: Entry, token: string, keepMs: number): void {
    entry.holders = entry.holders.filter((holder) => holder.token !== token);
    if (entry.holders.length > 0) return this.#letIn(key, entry);
    if (keepMs === 0) return this.#pass(key, entry);
    this.#keep(key, entry, token, keepMs);
  }

  #keep(key: string, entry: Entry, token: string, keepMs: number): void {
    entry.holders = [{ token: `kept:${token}`, expiresAt: this.#locks.clock.now() + keepMs }];
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

  #remaining({ holders }: Pick<Entry, 'holders'>): number {
    const last = Math.max(0, ...holders.map(({ expiresAt }) => expiresAt));
    return Math.max(0, last - this.#locks.clock.now());
  }
}

/** Whether nobody has the key, or those who have it let in this one beside them. */
export function isOpenTo(holders: readonly Holder[], token: string): boolean {
  const wanted = termsOf(token);
  const areAlike = holders.every((it) => modeOf(it.token) === wanted?.mode);
  if (holders.length === 0 || (isReader(token) && areAlike)) return true;
  const { weight = 0, permits } = wanted ?? {};
  const taken = holders.reduce((sum, it) => sum + (termsOf(it.token)?.weight ?? 0), 0);
  return permits !== undefined && areAlike && taken + weight <= permits;
}

function isReader(token: string): boolean {
  return modeOf(token) === 'shared';
}

function isPermit(token: string): boolean {
  return modeOf(token) === 'permit';
}

/** Whether the key has holders that may have it together with others. */
function areJoint({ holders }: Entry): boolean {
  return holders.some(({ token }) => isReader(token) || isPermit(token));
}

/** The least number that no permit has. */
function freeSlot(holders: readonly Holder[]): number {
  let slot = 0;
  while (holders.some((holder) => holder.slot === slot)) slot++;
  return slot;
}

function holderWith({ holders }: Entry, token: string): Holder | undefined {
  return holders.find((holder) => holder.token === token);
}

/** @param position of the token in the queue, if it has one @param head the first of the other waiters */
function isTurnOf(token: string, position: number | undefined, head: Waiter | undefined): boolean {
  if (head === undefined || (position !== undefined && position <= head.position)) return true;
  return isReader(token) && isReader(head.token);
}

/** Without a token that keeps the key after a lease. */
function holdersIn(value: string): HolderRecord[] {
  return tokensIn(value).map((token) => ({ token, process: THIS_PROCESS }));
}

/** What Redis would have for the key; undefined if it is free. */
function valueOf(holders: readonly Holder[]): string | undefined {
  const [first, second] = holders;
  if (first === undefined || (second === undefined && (first.slot ?? 0) === 0)) return first?.token;
  const each = holders.map(({ token, expiresAt, slot }) => {
    const ends = String(Math.round(expiresAt));
    return `${slot === undefined ? ends : `${ends}/${slot}`}:${token}`;
  });
  return [first.slot === undefined ? 'shared' : 'permits', ...each].join(' ');
}

/** @returns the token's position, if it was in the queue */
function positionOf({ queue }: Entry, token: string): number | undefined {
  return queue.find((waiter) => waiter.token === token)?.position;
}

function remove({ queue }: Entry, token: string): void {
  const index = queue.findIndex((waiter) => waiter.token === token);
  if (index >= 0) queue.splice(index, 1);
}
