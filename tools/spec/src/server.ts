import type { Rule } from './rules.js';

/** What the server keeps of one key. Times are in milliseconds of its clock. */
export interface KeyState {
  readonly lock: { readonly token: string; readonly until: number } | null;
  /** In the order of the places. */
  readonly queue: readonly Waiter[];
  /** A fencing number that no number in use exceeds. */
  readonly fence: number;
  /** Until then, it is remembered that a lease has expired although others waited. */
  readonly lapsedUntil: number;
}

export interface Waiter {
  readonly token: string;
  readonly place: number;
}

export const NOTHING: KeyState = { lock: null, queue: [], fence: 0, lapsedUntil: 0 };

export type Command = { readonly token: string } & (
  | { readonly kind: 'acquire'; leaseMs: number; nowait?: boolean; place?: number | undefined }
  | { readonly kind: 'recheck'; newToken: string; leaseMs: number; place: number }
  | { readonly kind: 'renew'; leaseMs: number; used: number; reserves: number }
  | ({ readonly kind: 'release'; used: number; newToken?: string; leaseMs?: number } & Kept)
  | { readonly kind: 'leave'; other?: string; leaseMs: number }
  | ({ readonly kind: 'take back'; other?: string; used?: number } & Kept)
);
/** Nobody gets the key for `keepMs`. A call that has waited for `waitedMs` comes before those that came later. */
type Kept = { readonly keepMs?: number; readonly waitedMs?: number };

export type Reply =
  | { readonly kind: 'granted'; token: string; first: number; last: number; waiters: number }
  | { readonly kind: 'queued'; token: string; place: number; ms: number }
  | { readonly kind: 'renewed'; last: number; waiters: number }
  | { readonly kind: 'busy' | 'lost' | 'released' | 'left' };

/** Every message is a hint: it may be late, doubled or lost, or overtake the reply of the command that caused it. */
export type Message = { readonly token: string } & (
  | { readonly kind: 'grant'; first: number; last: number; waiters: number }
  | { readonly kind: 'wanted' }
  | { readonly kind: 'head'; ms: number }
);

/** What surrounds a script while it runs. */
export interface Surroundings {
  readonly now: number;
  readonly acceptMs: number;
  readonly lapsedMs: number;
  /** Whether somebody subscribes to the inbox of the token's process. */
  listens(token: string): boolean;
  /** Whether the process polls, because it did not listen when it introduced the token. */
  polls(token: string): boolean;
  /** The place of somebody who comes now, or came that long ago, after everybody who is here. */
  arrival(last: number, agoMs: number): number;
  /** Numbers for a new holder, from `least` on. */
  mint(least: number): readonly [first: number, last: number];
  /** The last number that a renewal reserves, `least` or a greater one. */
  reserve(least: number): number;
  /**
   * How many numbers a release gives back at most. Undefined if all keys share the fence: others may have numbers below
   * it.
   */
  readonly givenBack: number | undefined;
  readonly broken: Rule | undefined;
}

/** A poller finds its grant by itself, soon. */
const POLLED_MS = 1_000;

/** Each command is one script, which nothing interrupts. */
export function run(
  before: KeyState,
  command: Command,
  around: Surroundings,
): { readonly key: KeyState; readonly reply: Reply; readonly told: readonly Message[] } {
  const { now, acceptMs, broken } = around;
  let { lock, fence, lapsedUntil } = before;
  let queue = [...before.queue];
  const told: Message[] = [];
  if (lock !== null && lock.until <= now) lock = null;
  const reply = execute();
  return { key: { lock, queue, fence, lapsedUntil }, reply, told };

  function execute(): Reply {
    switch (command.kind) {
      case 'acquire': {
        const { token, leaseMs, nowait = false, place } = command;
        return take(token, token, leaseMs, nowait, place);
      }
      case 'recheck': {
        const { token, newToken, leaseMs, place } = command;
        const isIn = queue.some((waiter) => waiter.token === token) || lock?.token === token;
        if (!isIn && broken === 'a re-check rejoins') {
          return { kind: 'queued', token: newToken, place, ms: leaseMs };
        }
        return take(token, newToken, leaseMs, false, place);
      }
      case 'renew': {
        const { token, leaseMs, used, reserves } = command;
        if (lock?.token !== token) return { kind: 'lost' };
        prolong(leaseMs);
        if (reserves === 0) return { kind: 'renewed', last: 0, waiters: queue.length };
        // Who does not know what it has used gets new ones.
        const least = used > 0 ? Math.max(fence, used + reserves) : fence + reserves;
        const last = around.reserve(least);
        if (broken !== 'numbers are reserved') fence = Math.max(fence, last);
        return { kind: 'renewed', last, waiters: queue.length };
      }
      case 'release':
        return release(command);
      case 'leave':
      case 'take back':
        return leave(command);
    }
  }

  /** Takes the lock for `me`, or a place in the queue. `old` is the token that waited until now. */
  function take(old: string, me: string, leaseMs: number, nowait: boolean, kept?: number): Reply {
    const isOwn = lock !== null && (lock.token === me || lock.token === old);
    if (isOwn && broken !== 'an own lock is recognised') {
      prolong(leaseMs);
      return granted();
    }
    if (lock === null && (queue.length === 0 || broken === 'nobody overtakes the queue')) {
      drop(old, me);
      return grant(me, leaseMs);
    }
    const waits =
      queue.find(({ token }) => token === old) ?? queue.find(({ token }) => token === me);
    const isKept = lock !== null && lapsedUntil <= now;
    const place = nowait ? undefined : (waits?.place ?? (isKept ? kept : undefined));
    if (lock !== null) {
      if (!lock.token.startsWith('kept:')) told.push({ kind: 'wanted', token: lock.token });
      if (nowait) return { kind: 'busy' };
      return { kind: 'queued', token: me, place: join(me, place, old), ms: lock.until - now };
    }
    const [first, second] = living(old, me);
    lapsedUntil = now + around.lapsedMs;
    if (first === undefined || (place !== undefined && place <= first.place)) {
      drop(old, me);
      return grant(me, leaseMs);
    }
    if (nowait) {
      handTo(first, second);
      return { kind: 'busy' };
    }
    const mine = join(me, place, old);
    return { kind: 'queued', token: me, place: mine, ms: handTo(first, second) };
  }

  function release(of: Extract<Command, { kind: 'release' }>): Reply {
    const { token, used, newToken, leaseMs = 0, keepMs = 0, waitedMs = 0 } = of;
    drop(token);
    if (lock?.token !== token && broken !== 'only the owner releases') {
      return newToken === undefined ? { kind: 'lost' } : take(newToken, newToken, leaseMs, false);
    }
    const [first, second] = living();
    giveBack(used);
    if (newToken === undefined) {
      giveUp(token, keepMs, first, second);
      return { kind: 'released' };
    }
    lock = null;
    const place = waitedMs > 0 ? around.arrival(0, waitedMs) : undefined;
    if (first === undefined || (place !== undefined && place < first.place)) {
      return grant(newToken, leaseMs);
    }
    const mine = join(newToken, place);
    return { kind: 'queued', token: newToken, place: mine, ms: handTo(first, second) };
  }

  function leave(of: Extract<Command, { kind: 'leave' | 'take back' }>): Reply {
    const { token, other = token } = of;
    drop(token, other);
    const isMine = lock !== null && (lock.token === token || lock.token === other);
    if (of.kind === 'leave') {
      if (isMine) {
        prolong(of.leaseMs);
        return granted();
      }
      if (lock !== null) return left();
      const [first, second] = living();
      if (first === undefined) return grant(token, of.leaseMs);
      lapsedUntil = now + around.lapsedMs;
      handTo(first, second);
      return { kind: 'left' };
    }
    const { keepMs = 0, used = 0 } = of;
    if (isMine && broken !== 'leaving hands on') {
      const [first, second] = living();
      giveBack(used);
      giveUp(lock?.token ?? token, keepMs, first, second);
    } else if (lock === null && keepMs > 0) {
      giveUp(token, keepMs, ...living());
      return { kind: 'left' };
    }
    return isMine ? { kind: 'left' } : left();
  }

  /** Somebody else has the lock. While nobody has it, only the first in the queue was told when it comes free. */
  function left(): Reply {
    const [first] = queue;
    const isKept = lock?.token.startsWith('kept:') === true;
    if (first !== undefined && lock !== null && isKept && broken !== 'the next waiter is told') {
      told.push({ kind: 'head', token: first.token, ms: lock.until - now });
    }
    return { kind: 'left' };
  }

  // ---- the steps of which they consist ------------------------------------------------------------------------

  function granted(): Reply {
    const [first, last] = mint();
    return { kind: 'granted', token: lock?.token ?? '', first, last, waiters: queue.length };
  }

  function grant(token: string, leaseMs: number): Reply {
    lock = { token, until: now + leaseMs };
    return granted();
  }

  function mint(): readonly [first: number, last: number] {
    const [first, last] = around.mint(fence + 1);
    fence = broken === 'numbers are reserved' ? first : last;
    return [first, last];
  }

  function prolong(leaseMs: number): void {
    if (lock !== null) lock = { ...lock, until: Math.max(lock.until, now + leaseMs) };
  }

  /** The holder knows what it has used, so the rest of its block is not lost. */
  function giveBack(used: number): void {
    if (used > 0 && fence <= used + 1 + (around.givenBack ?? -Infinity)) fence = used;
  }

  function giveUp(token: string, keepMs: number, first?: Waiter, second?: Waiter): void {
    lock = keepMs > 0 ? { token: `kept:${token}`, until: now + keepMs } : null;
    if (first === undefined) return;
    if (keepMs > 0) told.push({ kind: 'head', token: first.token, ms: keepMs });
    else handTo(first, second);
  }

  /** A short lease: its new holder may be gone. Ownership passes here, so nobody can come in between. */
  function handTo({ token }: Waiter, next: Waiter | undefined): number {
    const polls = around.polls(token);
    const ms = polls ? Math.min(acceptMs, POLLED_MS) : acceptMs;
    lock = { token, until: now + ms };
    const [first, last] = mint();
    drop(token);
    if (!polls) told.push({ kind: 'grant', token, first, last, waiters: queue.length });
    if (next !== undefined && broken !== 'the next waiter is told') {
      told.push({ kind: 'head', token: next.token, ms });
    }
    return ms;
  }

  function join(me: string, place: number | undefined, old = me): number {
    const mine = place ?? around.arrival(queue.at(-1)?.place ?? 0, 0);
    drop(me, old);
    queue.push({ token: me, place: mine });
    queue.sort((a, b) => a.place - b.place || (a.token < b.token ? -1 : 1));
    return mine;
  }

  function drop(...tokens: readonly string[]): void {
    queue = queue.filter(({ token }) => !tokens.includes(token));
  }

  /** The first two waiters that listen or poll, except the sender's own tokens. Dead ones ahead of them are dropped. */
  function living(...mine: readonly string[]): readonly [first?: Waiter, second?: Waiter] {
    const live: Waiter[] = [];
    for (const waiter of [...queue]) {
      const { token } = waiter;
      if (live.length === 2) break;
      if (mine.includes(token)) continue;
      const isLive = around.listens(token) || around.polls(token);
      if (isLive || broken === 'only listeners are granted') live.push(waiter);
      else drop(token);
    }
    return live as [Waiter?, Waiter?];
  }
}
