import type { Rule } from './rules.js';
import type { Command, Message, Reply } from './server.js';

/** A process and its lock service. All times are what is left of them: the world counts them down to zero. */
export interface Process {
  life: 'up' | 'hung' | 'dead';
  /** Whether its subscription is there. A hung process keeps it. */
  listens: boolean;
  phase: 'idle' | 'asking' | 'waiting' | 'confirming' | 'holding';
  /** Of the lease, or of the attempt to get it. */
  token: string;
  /** What a whole lease would have left that began when the token was introduced. */
  ends: number;
  /** The same for a re-check under way; its token replaces the other one when the answer says so. */
  pending: string;
  pendingEnds: number;
  place: number;
  /** When to re-check; null while an answer is awaited. */
  recheckIn: number | null;
  /** From a notice that overtook the answer. */
  recheckBy: number | null;
  /** Until when the lease is certainly ours. */
  deadline: number;
  renewing: boolean;
  /** Another process wants the key: callers here do not follow each other any more. */
  wanted: boolean;
  /** The highest fencing number used, and the last one reserved. */
  used: number;
  last: number;
  introduced: number;
  /** The calls for the key still to come, with the one under way. */
  calls: number;
  /** Re-checks still to be explored: the timer may fire at any time, but not without end. */
  rechecks: number;
}

/** A command on its way, or its answer. `ends`: what a renewed lease would have left, counted from the sending. */
export interface Sent {
  readonly command: Command;
  ends: number;
}

export interface Terms {
  readonly leaseMs: number;
  readonly acceptMs: number;
  /** The longest time for which a waiter relies on messages. */
  readonly safetyMs: number;
  /** Whether callers of one process follow each other under one lease. */
  readonly local: boolean;
  /** How many fencing numbers a renewal reserves. */
  readonly block: number;
  readonly broken: Rule | undefined;
}

/** What one process does at each event: it changes itself, and sends. */
export class Client {
  readonly #name: string;
  readonly #me: Process;
  readonly #terms: Terms;
  readonly #send: (sent: Sent) => void;
  readonly #holds: (number: number) => void;

  constructor(
    name: string,
    me: Process,
    terms: Terms,
    send: (sent: Sent) => void,
    holds: (number: number) => void,
  ) {
    this.#name = name;
    this.#me = me;
    this.#terms = terms;
    this.#send = send;
    this.#holds = holds;
  }

  ask(place?: number): void {
    const token = this.#introduce();
    this.#begin(token);
    this.#command({ kind: 'acquire', token, leaseMs: this.#terms.leaseMs, place });
  }

  recheck(): void {
    const me = this.#me;
    const { leaseMs, broken } = this.#terms;
    const newToken = broken === 'a re-check brings a new token' ? me.token : this.#introduce();
    me.pending = newToken;
    me.pendingEnds = leaseMs;
    if (newToken === me.token) me.ends = leaseMs;
    me.recheckIn = null;
    this.#command({ kind: 'recheck', token: me.token, newToken, leaseMs, place: me.place });
  }

  renew(): void {
    const { token, used } = this.#me;
    this.#me.renewing = true;
    this.#command({
      kind: 'renew',
      token,
      leaseMs: this.#terms.leaseMs,
      used,
      reserves: this.#terms.block,
    });
  }

  /** The call under way has ended. */
  finish(): void {
    const me = this.#me;
    const { local, leaseMs, broken } = this.#terms;
    me.calls -= 1;
    const { token, used } = me;
    const isNext = local && me.calls > 0 && me.deadline > 0;
    if (isNext && !me.wanted && (used < me.last || broken === 'numbers are reserved')) {
      me.used += 1;
      return this.#holds(me.used);
    }
    if (!isNext || !me.wanted) return this.#over({ kind: 'release', token, used });
    const newToken = broken === 'a re-queue brings a new token' ? token : this.#introduce();
    this.#begin(newToken);
    this.#command({ kind: 'release', token, used, newToken, leaseMs });
  }

  /** The deadline has passed, or the server says that the lease is not ours. The work ends, later. */
  lose(): void {
    this.#me.calls -= 1;
    this.#over({ kind: 'release', token: this.#me.token, used: 0 });
  }

  giveUp(): void {
    const { token, pending } = this.#me;
    this.#me.calls -= 1;
    this.#over({ kind: 'take back', token, ...(pending === '' ? {} : { other: pending }) });
  }

  subscribed(): void {
    this.#me.listens = true;
    const isRuled = this.#terms.broken !== 'a new subscription re-checks';
    if (this.#me.phase === 'waiting' && isRuled) this.#recheckWithin(0);
  }

  answer({ command, ends }: Sent, reply: Reply): void {
    const me = this.#me;
    const { broken, leaseMs } = this.#terms;
    if (broken === 'a lease counts from sending') ends = leaseMs;
    switch (reply.kind) {
      case 'granted':
        if (this.#adopts(reply.token)) {
          return this.#granted(reply, broken === 'a lease counts from sending' ? leaseMs : me.ends);
        }
        return this.#isMine(reply.token) ? undefined : this.#takeBack(reply.token);
      case 'queued':
        if (!this.#adopts(reply.token)) {
          return this.#isMine(reply.token) ? undefined : this.#takeBack(reply.token);
        }
        me.phase = 'waiting';
        me.place = reply.place;
        this.#recheckWithin(Math.min(reply.ms, this.#terms.safetyMs, me.recheckBy ?? reply.ms));
        me.recheckBy = null;
        return;
      case 'renewed':
        if (me.token !== command.token || !me.renewing) return;
        me.renewing = false;
        if (me.phase === 'holding' && me.deadline === 0) return; // over for good
        me.deadline = Math.max(me.deadline, ends);
        me.last = Math.max(me.last, reply.last);
        if (reply.waiters > 0) me.wanted = true;
        if (me.phase === 'confirming') this.#confirmed();
        return;
      case 'lost':
        if (command.kind !== 'renew' || me.token !== command.token || !me.renewing) return;
        if (me.phase === 'holding') return this.lose();
        return this.ask(me.place === 0 ? undefined : me.place); // with a new token
      case 'busy':
      case 'released':
      case 'left':
        return;
    }
  }

  read(message: Message): void {
    const me = this.#me;
    const { leaseMs, acceptMs, broken } = this.#terms;
    const { token } = message;
    const isKnown = broken !== 'a token in flight is known' && token === me.pending;
    switch (message.kind) {
      case 'grant': {
        if (broken === 'a grant may come first' && me.phase === 'asking') return;
        const isNew = broken === 'a grant counts from its request';
        if (!this.#adopts(token)) return this.#isMine(token) ? undefined : this.#heal(token);
        return this.#granted(message, isNew ? acceptMs : me.ends - (leaseMs - acceptMs));
      }
      case 'wanted':
        if (this.#isMine(token) || isKnown) me.wanted = true;
        else this.#heal(token);
        return;
      case 'head':
        if (token !== me.token && token !== me.pending) return;
        if (me.recheckIn !== null) this.#recheckWithin(message.ms);
        else if (broken !== 'a notice may come first') me.recheckBy = message.ms;
        return;
    }
  }

  // ---- the steps of which they consist ------------------------------------------------------------------------

  #introduce(): string {
    this.#me.introduced += 1;
    return `${this.#name}${this.#me.introduced}`;
  }

  #command(command: Command): void {
    this.#send({ command, ends: command.kind === 'renew' ? this.#terms.leaseMs : 0 });
  }

  #begin(token: string): void {
    const { leaseMs } = this.#terms;
    Object.assign(this.#me, { ...NO_LEASE, phase: 'asking', token, ends: leaseMs });
  }

  #over(last: Command): void {
    Object.assign(this.#me, NO_LEASE);
    this.#command(last);
  }

  #isMine(token: string): boolean {
    return this.#me.phase !== 'idle' && token === this.#me.token;
  }

  /** Whether the attempt has this token; the other one is forgotten. */
  #adopts(token: string): boolean {
    const me = this.#me;
    if ((me.phase !== 'asking' && me.phase !== 'waiting') || token === '') return false;
    if (token !== me.token && token !== me.pending) return false;
    if (token === me.pending) Object.assign(me, { token, ends: me.pendingEnds });
    Object.assign(me, { pending: '', pendingEnds: 0 });
    return true;
  }

  /** If nothing is left of the lease, it is confirmed before anybody gets it. */
  #granted(grant: { first: number; last: number; waiters: number }, left: number): void {
    const me = this.#me;
    Object.assign(me, { deadline: Math.max(0, left), used: grant.first, last: grant.last });
    Object.assign(me, { recheckIn: null, recheckBy: null });
    if (grant.waiters > 0) me.wanted = true;
    this.#confirmed();
  }

  #confirmed(): void {
    const me = this.#me;
    me.phase = me.deadline > 0 ? 'holding' : 'confirming';
    if (me.phase === 'confirming') return this.renew();
    Object.assign(me, { ends: 0, place: 0 }); // of no use any more
    this.#holds(me.used);
  }

  #takeBack(token: string): void {
    this.#command({ kind: 'take back', token });
  }

  /** The token is ours, and nothing here uses it: others must not wait until it expires. */
  #heal(token: string): void {
    this.#command({ kind: 'release', token, used: 0 });
  }

  #recheckWithin(ms: number): void {
    if (this.#terms.broken === 'waiters re-check') return;
    this.#me.recheckIn = Math.min(this.#me.recheckIn ?? ms, ms);
  }
}

const NO_LEASE = {
  phase: 'idle',
  token: '',
  ends: 0,
  pending: '',
  pendingEnds: 0,
  place: 0,
  recheckIn: null,
  recheckBy: null,
  deadline: 0,
  renewing: false,
  wanted: false,
  used: 0,
  last: 0,
} as const;

export function newProcess(calls: number, rechecks: number): Process {
  return { ...NO_LEASE, life: 'up', listens: true, introduced: 0, calls, rechecks };
}
