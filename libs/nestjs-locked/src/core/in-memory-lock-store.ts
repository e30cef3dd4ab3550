import { randomBytes } from 'node:crypto';
import { systemClock, type Clock } from './clock.js';
import { hostname } from 'node:os';
import type { LockDirectory, LockRecord } from './lock-directory.js';
import { acceptanceLeaseMs } from './lease-timing.js';
import type {
  AcquireCommand,
  AcquireReply,
  Granted,
  InboxMessage,
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
} from './lock-store.js';

const BLOCK = 1_000_000;
const REVOKED_MS = 1_000;

/** One key, as Redis would keep it. */
interface Entry {
  lock: { token: string; expiresAt: number } | undefined;
  /** Sorted by score. */
  queue: { token: string; score: number }[];
  fence: number;
  label: { token: string; label: string } | undefined;
}

/**
 * What several in-memory stores share, as several processes share a Redis server. Kept in this process, so it
 * excludes nobody outside it.
 */
export class InMemoryLocks {
  readonly clock: Clock;
  readonly #entries = new Map<string, Entry>();
  readonly #inboxes = new Map<string, (message: InboxMessage) => void>();

  constructor(clock: Clock = systemClock) {
    this.clock = clock;
  }

  entry(name: string): Entry {
    let entry = this.#entries.get(name);
    if (entry === undefined) {
      entry = { lock: undefined, queue: [], fence: 0, label: undefined };
      this.#entries.set(name, entry);
    }
    if (entry.lock !== undefined && entry.lock.expiresAt <= this.clock.now())
      entry.lock = undefined;
    return entry;
  }

  names(): string[] {
    return [...this.#entries.keys()];
  }

  subscribe(processId: string, inbox: (message: InboxMessage) => void): void {
    this.#inboxes.set(processId, inbox);
  }

  unsubscribe(processId: string): void {
    this.#inboxes.delete(processId);
  }

  listens(token: string): boolean {
    return this.#inboxes.has(inboxOf(token));
  }

  tell(message: InboxMessage): void {
    const inbox = this.#inboxes.get(inboxOf(message.token));
    if (inbox !== undefined) queueMicrotask(() => inbox(message));
  }
}

/**
 * The store of unit tests: the rules of the Redis scripts, in memory. It passes the same contract suite.
 * Its fencing tokens rise within the process only.
 */
export class InMemoryLockStore implements LockStore, LockDirectory {
  readonly directory = this;
  readonly processId = randomBytes(16).toString('hex');
  readonly commandTimeoutMs = 1_000;
  readonly #locks: InMemoryLocks;
  readonly #acceptMs: number;
  #open = false;

  constructor(locks: InMemoryLocks, leaseMs: number) {
    this.#locks = locks;
    this.#acceptMs = acceptanceLeaseMs(leaseMs);
  }

  get inboxReady(): boolean {
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

  async acquire({ name, token, leaseMs, nowait, score }: AcquireCommand): Promise<AcquireReply> {
    const entry = this.#locks.entry(name);
    if (
      nowait &&
      (entry.lock !== undefined || entry.queue.length > 0) &&
      entry.lock?.token !== token
    ) {
      if (entry.lock === undefined) this.#grantNext(name, entry);
      else this.#locks.tell({ kind: 'wanted', name, token: entry.lock.token });
      return { kind: 'busy', remainingMs: this.#remaining(entry) };
    }
    return this.#take(name, entry, token, token, leaseMs, score);
  }

  async recheck({
    name,
    token,
    newToken,
    leaseMs,
    score,
  }: RecheckCommand): Promise<Granted | Queued> {
    return this.#take(name, this.#locks.entry(name), token, newToken, leaseMs, score);
  }

  async renew(commands: readonly RenewCommand[]): Promise<RenewReply[]> {
    return commands.map(({ name, token, leaseMs, used }) => {
      const entry = this.#locks.entry(name);
      if (entry.lock?.token !== token) return { kind: 'lost' };
      entry.lock.expiresAt = Math.max(entry.lock.expiresAt, this.#locks.clock.now() + leaseMs);
      entry.fence = Math.max(entry.fence, used + BLOCK);
      return { kind: 'renewed', blockEnd: entry.fence, waiters: entry.queue.length };
    });
  }

  async acquireTogether(commands: readonly AcquireCommand[]): Promise<readonly AcquireReply[]> {
    const entries = commands.map(({ name }) => this.#locks.entry(name));
    const free = entries.every(({ lock, queue }) => lock === undefined && queue.length === 0);
    return commands.map(({ token, leaseMs }, i) =>
      free ? this.#grant(entries[i] as Entry, token, leaseMs) : { kind: 'busy', remainingMs: 0 },
    );
  }

  async release({ name, token, used, keepMs = 0 }: ReleaseCommand): Promise<ReleaseReply> {
    const entry = this.#locks.entry(name);
    remove(entry, token);
    if (entry.lock?.token !== token) return { kind: 'lost' };
    this.#free(entry, used);
    if (keepMs > 0) {
      entry.lock = { token: `kept:${token}`, expiresAt: this.#locks.clock.now() + keepMs };
      this.#tellHead(name, entry, keepMs);
    } else {
      this.#grantNext(name, entry);
    }
    return { kind: 'released' };
  }

  async requeue({ name, token, used, newToken, leaseMs }: RequeueCommand): Promise<RequeueReply> {
    const entry = this.#locks.entry(name);
    remove(entry, token);
    if (entry.lock?.token !== token)
      return this.#take(name, entry, newToken, newToken, leaseMs, undefined);
    this.#free(entry, used);
    return this.#compete(name, entry, newToken, this.#join(entry, newToken, undefined), leaseMs);
  }

  async leave({ name, tokens, take, leaseMs }: LeaveCommand): Promise<LeaveReply> {
    const entry = this.#locks.entry(name);
    for (const token of tokens) if (token !== undefined) remove(entry, token);
    if (entry.lock !== undefined && tokens.includes(entry.lock.token)) {
      if (take) return this.#grant(entry, entry.lock.token, leaseMs);
      entry.lock = undefined;
      this.#grantNext(name, entry);
    } else if (take && entry.lock === undefined && entry.queue.length === 0) {
      return this.#grant(entry, tokens[0], leaseMs);
    }
    return { kind: 'left' };
  }

  async label(name: string, token: string, label: string): Promise<void> {
    this.#locks.entry(name).label = { token, label };
  }

  async inspect(name: string): Promise<LockRecord | undefined> {
    const { lock, queue, label, fence } = this.#locks.entry(name);
    if (lock === undefined) return undefined;
    return {
      name,
      value: lock.token,
      remainingMs: lock.expiresAt - this.#locks.clock.now(),
      waiters: queue.length,
      since: (fence - BLOCK) / 1_000,
      label: label?.token === lock.token ? label.label : undefined,
      process: { host: hostname(), pid: process.pid },
    };
  }

  async *list(pattern: string): AsyncIterable<string> {
    const matches = globPattern(pattern);
    for (const name of this.#locks.names()) {
      if (matches.test(name) && this.#locks.entry(name).lock !== undefined) yield name;
    }
  }

  async revoke(name: string): Promise<boolean> {
    const entry = this.#locks.entry(name);
    if (entry.lock === undefined) return false;
    this.#locks.tell({ kind: 'revoked', name, token: entry.lock.token });
    entry.lock = { token: `revoked:${name}`, expiresAt: this.#locks.clock.now() + REVOKED_MS };
    this.#tellHead(name, entry, REVOKED_MS);
    return true;
  }

  #take(
    name: string,
    entry: Entry,
    old: string,
    me: string,
    leaseMs: number,
    keptScore: number | undefined,
  ): Granted | Queued {
    const holder = entry.lock?.token;
    if (holder === me || holder === old) return this.#grant(entry, holder, leaseMs);
    if (holder === undefined && entry.queue.length === 0) return this.#grant(entry, me, leaseMs);
    const score = this.#join(entry, me, remove(entry, old) ?? keptScore);
    if (holder === undefined) return this.#compete(name, entry, me, score, leaseMs);
    this.#locks.tell({ kind: 'wanted', name, token: holder });
    return {
      kind: 'queued',
      token: me,
      score,
      remainingMs: this.#remaining(entry),
      foreign: false,
    };
  }

  #compete(
    name: string,
    entry: Entry,
    me: string,
    score: number,
    leaseMs: number,
  ): Granted | Queued {
    if (this.#grantNext(name, entry, me) === 'other') {
      return {
        kind: 'queued',
        token: me,
        score,
        remainingMs: this.#remaining(entry),
        foreign: false,
      };
    }
    remove(entry, me);
    return this.#grant(entry, me, leaseMs);
  }

  #grantNext(name: string, entry: Entry, me?: string): 'self' | 'other' | 'nobody' {
    for (let head = entry.queue.shift(); head !== undefined; head = entry.queue.shift()) {
      if (head.token === me) return 'self';
      if (!this.#locks.listens(head.token)) continue;
      const { fence, blockEnd, waiters, token } = this.#grant(entry, head.token, this.#acceptMs);
      this.#locks.tell({
        kind: 'grant',
        name,
        token,
        fence,
        blockEnd,
        waiters,
        acceptMs: this.#acceptMs,
      });
      this.#tellHead(name, entry, this.#acceptMs);
      return 'other';
    }
    return 'nobody';
  }

  #tellHead(name: string, entry: Entry, ms: number): void {
    const [head] = entry.queue;
    if (head !== undefined) this.#locks.tell({ kind: 'head', name, token: head.token, ms });
  }

  #grant(entry: Entry, token: string, leaseMs: number): Granted {
    const fence = Math.max(entry.fence + 1, Math.floor(this.#locks.clock.wallNow() * 1_000));
    entry.fence = fence + BLOCK;
    entry.lock = { token, expiresAt: this.#locks.clock.now() + leaseMs };
    return { kind: 'granted', token, fence, blockEnd: entry.fence, waiters: entry.queue.length };
  }

  #free(entry: Entry, used: number): void {
    entry.lock = undefined;
    if (used > 0) entry.fence = used;
  }

  #join(entry: Entry, token: string, score?: number): number {
    const place = score ?? Math.max(this.#locks.clock.now(), (entry.queue.at(-1)?.score ?? 0) + 1);
    entry.queue.push({ token, score: place });
    entry.queue.sort((a, b) => a.score - b.score);
    return place;
  }

  #remaining(entry: Entry): number {
    return Math.max(0, (entry.lock?.expiresAt ?? 0) - this.#locks.clock.now());
  }
}

/** @returns its score, if it was there */
function remove(entry: Entry, token: string): number | undefined {
  const index = entry.queue.findIndex((waiter) => waiter.token === token);
  return index < 0 ? undefined : entry.queue.splice(index, 1)[0]?.score;
}

/** The patterns of Redis' MATCH: `*`, `?`, `[ab]`. */
function globPattern(glob: string): RegExp {
  const source = glob
    .replace(/[.+^${}()|\\]/g, '\\$&')
    .replace(/\*/g, '.*')
    .replace(/\?/g, '.');
  return new RegExp(`^${source}$`, 's');
}

function inboxOf(token: string): string {
  return token.slice(0, 32);
}
