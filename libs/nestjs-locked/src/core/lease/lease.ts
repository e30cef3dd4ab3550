import type { WaitingCall } from './waiting-call.js';
import { HandoverBudget } from './handover-budget.js';
import { Hold } from './hold.js';
import { LeaseRelease } from './lease-release.js';
import { driftMarginMs, renewalDueAt } from '../store/lease-timing.js';
import type { LocalQueue } from './local-queue.js';
import type { EngineParts } from './engine-parts.js';
import type {
  Granted,
  InboxMessage,
  RenewCommand,
  RenewReply,
  Unknown,
} from '../store/lock-store.js';
import { type LockLostReason, type LockStoreError } from '../lock.errors.js';
import type { Scheduled } from '../time/scheduler.js';
import type { TokenOwner } from '../store/token-registry.js';
import { unreachable } from '../runtime/unreachable.js';
import type { Renewable } from './watchdog.js';

/**
 * confirming  ours, but too short or too far spent to be handed out: RENEW first
 * held        a caller has it
 * idle        nobody has it; kept for a moment in case somebody here wants it again
 * doubtful    nobody knows what became of a transaction under it: kept by nobody until it has run out
 * over        released, handed over or lost; nothing leads out of here
 */
type State = 'confirming' | 'held' | 'idle' | 'doubtful' | 'over';

export interface LeaseGrant extends Omit<Granted, 'kind'> {
  readonly introducedAt: number;
  /** How long the store keeps it from the moment of the grant, which came after `introducedAt`. */
  readonly lengthMs: number;
  /** Not in answer to a command: perhaps shorter than what was asked for, perhaps granted long after `introducedAt`. */
  readonly cameByMessage: boolean;
  /** What was asked for. */
  readonly leaseMs: number;
  readonly score: number | undefined;
}

const RENEWAL_RETRY_MS = 100;

/**
 * This process's right to a key, for the life of one token: passed from caller to caller, kept alive, given back.
 * Its deadline is local and monotonic: it counts from the *sending* of the command that introduced the token, or of
 * the last renewal that was answered, and once it has passed nothing revives the lease.
 */
export class Lease implements Scheduled, Renewable, TokenOwner {
  place: Scheduled['place'];
  readonly #parts: EngineParts;
  readonly #queue: LocalQueue;
  readonly #grant: LeaseGrant;
  #state: State = 'confirming';
  /** What we ask the store for, in milliseconds: as the present holder wants it. */
  #leaseMs: number;
  #deadline: number;
  #renewAt: number;
  #holdEnd = Infinity;
  #idleUntil = Infinity;
  #renewalFailed = false;
  /** For how long the store last promised it in answer to a command, in milliseconds. */
  #promisedMs: number;
  /** The machine may have slept until then: nothing is handed out before a renewal sent later was answered. */
  #suspectSince: number | undefined;
  /** For how long it may have slept since the last answer: so much may be gone of what our clock says is left. */
  #sleptMs = 0;
  /** What `inspect` shows, as far as it was written under this lease. */
  #label: string | undefined;
  #hold: Hold | undefined;
  /** Highest fencing token used, and the highest that may be used before the next renewal. */
  #used: number;
  #blockEnd: number;
  /** Nobody knows whether the transaction under the present hold was committed. */
  #commitUnknown = false;
  readonly #handovers: HandoverBudget;
  readonly #return: LeaseRelease;

  constructor(parts: EngineParts, queue: LocalQueue, grant: LeaseGrant) {
    this.#parts = parts;
    this.#queue = queue;
    this.#grant = grant;
    this.#leaseMs = grant.leaseMs;
    this.#promisedMs = grant.cameByMessage ? 0 : grant.lengthMs;
    this.#deadline = grant.introducedAt + grant.lengthMs - driftMarginMs(grant.lengthMs);
    this.#renewAt = renewalDueAt(grant.introducedAt, grant.lengthMs);
    this.#used = grant.fence - 1;
    this.#blockEnd = grant.blockEnd;
    this.#handovers = new HandoverBudget(parts.clock, parts.options.localHandovers);
    this.#return = new LeaseRelease(parts, queue, grant.token);
    this.#noteWaiters(grant.waiters);
    parts.tokens.assign(grant.token, this);
  }

  get key(): string {
    return this.#queue.key;
  }

  get state(): State {
    return this.#state;
  }

  get deadline(): number {
    return this.#deadline;
  }

  /** How long it is certainly ours, and the present hold may last. */
  remainingMs(): number {
    const end = Math.min(this.#deadline - this.#sleptMs, this.#holdEnd);
    return Math.max(0, end - this.#parts.clock.now());
  }

  /** How long the present hold may last, whatever becomes of the lease. */
  holdLeftMs(): number {
    return this.#holdEnd - this.#parts.clock.now();
  }

  // ---- handing it out ---------------------------------------------------------------------------------------

  /** A fresh grant may be short; it is good for its first holder if he gets at least half of it. */
  start(): void {
    const { lengthMs, leaseMs } = this.#grant;
    if (this.remainingMs() < lengthMs / 2) this.#confirm(leaseMs);
    else this.#handOut(this.#queue.first, 0);
  }

  /** A caller has come while the lease is idle. */
  reuse(caller: WaitingCall): void {
    this.#handOut(caller);
  }

  /** @param share of the caller's lease that must be left */
  #handOut(caller: WaitingCall | undefined, share = 0.5): void {
    if (caller === undefined) {
      void this.#release().catch(() => {}); // reported
      return;
    }
    const { leaseMs, renew, label } = caller.options;
    // A fixed lease has a length of its own: it is never one that somebody else has begun, or has asked for.
    if (!renew && (this.#used >= this.#grant.fence || this.#grant.leaseMs !== leaseMs)) {
      void this.#requeue(caller).catch(() => {}); // reported
      return;
    }
    this.#parts.noticeSuspend();
    if (this.#state === 'over') return; // it was idle, and given up: the caller has asked anew
    if (!this.#isGoodFor(caller, share)) return this.#confirm(leaseMs);
    this.#leaseMs = leaseMs;
    this.#state = 'held';
    this.#holdEnd = Infinity;
    this.#idleUntil = Infinity;
    const hold = new Hold(this, ++this.#used, caller.options);
    this.#hold = hold;
    if (caller.isPart) this.#schedule();
    else hold.begin(this.#parts.clock.now());
    if (label !== undefined) this.#show(label);
    this.#queue.handOut(caller, hold);
  }

  /** Whether so much of it is certainly left that the caller can begin without asking the store. */
  #isGoodFor({ options: { leaseMs, renew } }: WaitingCall, share: number): boolean {
    if (this.#suspectSince !== undefined || this.#used >= this.#blockEnd) return false;
    const remainingMs = this.remainingMs();
    if (remainingMs === 0 || remainingMs < leaseMs * (renew ? share : 0.5)) return false;
    // A fixed lease is not prolonged later: it begins with its whole length, unless the store was slow to answer.
    return renew || this.#promisedMs >= leaseMs || remainingMs >= leaseMs - driftMarginMs(leaseMs);
  }

  /** From here on the hold has an end: its longest time or, for a fixed one, that of the lease. */
  holdBegins(hold: Hold, now: number): void {
    if (this.#hold !== hold || this.#state !== 'held') return;
    const { maxHoldMs, leaseMs, renew } = hold.options;
    this.#holdEnd = now + maxHoldMs;
    if (!renew) {
      this.#deadline = Math.min(this.#deadline, now + leaseMs - driftMarginMs(leaseMs));
      this.#renewAt = Infinity;
    }
    this.#schedule();
  }

  /** Written once for each lease, unless the next caller has another one. */
  #show(label: string): void {
    if (label === this.#label) return;
    this.#label = label;
    const { directory } = this.#parts.store;
    void directory.label(this.key, this.#grant.token, label).catch(() => {}); // only people miss it
  }

  /** Renews before anybody is told that he holds it. Nobody does meanwhile: the store decides, not our deadline. */
  #confirm(leaseMs: number): void {
    this.#leaseMs = leaseMs;
    this.#state = 'confirming';
    this.#renewAt = Infinity;
    this.#schedule();
    this.#parts.watchdog.collect(this);
    this.#parts.watchdog.flush();
  }

  /** The holder has finished. @returns whether the lease was ours until now */
  async endHold(hold: Hold): Promise<boolean> {
    this.noticeDeadline();
    if (this.#hold !== hold) return false;
    this.#hold = undefined;
    this.#holdEnd = Infinity;
    const isLost = this.#state !== 'held';
    if (this.#commitUnknown) return this.#runOut(!isLost);
    if (isLost) {
      this.#giveBackLost();
      return false;
    }
    const keepMs = hold.since + hold.options.holdAtLeastMs - this.#parts.clock.now();
    if (keepMs > 0 && keepMs < Infinity) return this.#release(Math.ceil(keepMs));
    const next = this.#queue.first;
    if (next === undefined) return this.#rest(hold);
    if (!this.#mayHandOver(hold, next)) return this.#requeue(next);
    this.#handovers.spend();
    this.#handOut(next);
    return true;
  }

  /** Doubt ends sharing: the transaction may still be committed, so that nobody gets the key before the lease ends. */
  #runOut(wasHeld: boolean): Promise<boolean> {
    this.#state = 'doubtful';
    this.#schedule();
    this.#queue.over(this);
    return Promise.resolve(wasHeld);
  }

  #mayHandOver(hold: Hold, next: WaitingCall): boolean {
    if (!hold.options.renew || !next.options.renew) return false;
    return !this.#handovers.isSpent;
  }

  /** Nobody waits here: keeps the lease for a moment, if that is wanted, or gives it back. */
  #rest(hold: Hold): Promise<boolean> {
    const { lingerMs } = this.#parts.options;
    const { linger, renew } = hold.options;
    if (lingerMs === 0 || !linger || !renew || this.#handovers.isLimited || this.#queue.isClosed) {
      return this.#release();
    }
    this.#state = 'idle';
    this.#idleUntil = this.#parts.clock.now() + lingerMs;
    this.#schedule();
    return Promise.resolve(true);
  }

  // ---- giving it back ---------------------------------------------------------------------------------------

  /** @param keepMs the key stays taken for so long, by nobody */
  #release(keepMs = 0): Promise<boolean> {
    this.#end();
    this.#queue.over(this);
    return this.#return.release(this.#used, this.#longestEnd, keepMs);
  }

  #requeue(next: WaitingCall): Promise<boolean> {
    this.#end();
    return this.#return.requeue(this, next, this.#used, this.#longestEnd);
  }

  /** The idle lease is not wanted any more: by another process, or because its time is over. */
  giveUp(): void {
    if (this.#state === 'idle') void this.#release().catch(() => {}); // reported
  }

  // ---- keeping it -------------------------------------------------------------------------------------------

  renewCommand(): RenewCommand | undefined {
    if (this.#state === 'over' || this.#state === 'doubtful') return undefined;
    if (!this.#isFixed) return this.#renewal(this.#leaseMs);
    // Only looked at: what is left of a fixed lease is confirmed, and not more.
    const leftMs = Math.ceil(this.#deadline - this.#parts.clock.now());
    return this.#renewal(Math.max(1, leftMs));
  }

  #renewal(leaseMs: number): RenewCommand {
    return { key: this.key, token: this.#grant.token, leaseMs, used: this.#used };
  }

  onRenewReply(command: RenewCommand, sentAt: number, reply: RenewReply): void {
    this.#parts.scheduler.catchUp();
    if (this.#state === 'over' || this.#state === 'doubtful') return;
    switch (reply.kind) {
      case 'renewed':
        return this.#renewed(command, sentAt, reply.blockEnd, reply.waiters);
      case 'lost':
        return this.#state === 'confirming' ? this.#askAgain() : this.#lose('stolen');
      case 'unknown':
        if (this.#state === 'confirming' && this.remainingMs() === 0) {
          return this.#failToConfirm(reply);
        }
        this.#reportFailure(reply.cause);
        if (this.#state === 'confirming') this.#queue.storeFails(reply.cause);
        if (this.#endsByItself) return;
        this.#renewAt = this.#parts.clock.now() + RENEWAL_RETRY_MS;
        return this.#schedule();
      default:
        return unreachable(reply);
    }
  }

  #renewed({ leaseMs }: RenewCommand, sentAt: number, blockEnd: number, waiters: number): void {
    this.#deadline = Math.max(this.#deadline, sentAt + leaseMs - driftMarginMs(leaseMs));
    this.#promisedMs = leaseMs;
    this.#blockEnd = blockEnd;
    this.#renewalFailed = false;
    if (sentAt >= (this.#suspectSince ?? Infinity)) {
      this.#suspectSince = undefined;
      this.#sleptMs = 0;
    }
    // However far `ensure` has prolonged it: that the key was taken from us is noticed as soon as ever.
    const dueAt = renewalDueAt(sentAt, Math.min(leaseMs, this.#leaseMs));
    this.#renewAt = this.#endsByItself ? Infinity : dueAt;
    this.#noteWaiters(waiters);
    if (this.#state === 'confirming') this.#handOut(this.#queue.first);
    else this.#schedule();
  }

  get #endsByItself(): boolean {
    return this.#commitUnknown || this.#isFixed;
  }

  /** Until the work of a fixed hold begins, its lease is kept like any other. */
  get #isFixed(): boolean {
    return this.#hold?.options.renew === false && this.#hold.since !== Infinity;
  }

  #reportFailure(cause: LockStoreError): void {
    if (this.#renewalFailed) return;
    this.#renewalFailed = true;
    const remainingMs = this.remainingMs();
    this.#parts.report({ type: 'renewal-unknown', key: this.key, remainingMs, cause });
  }

  /** Renews now, so that at least this much is left afterwards. @returns why the store did not answer, if it did not */
  prolong(hold: Hold, ms: number): Promise<LockStoreError | undefined> {
    return this.renewFor(hold, Math.max(this.#leaseMs, Math.ceil(ms * 1.02) + 100));
  }

  /** Renews now. @returns why the store did not answer, if it did not */
  async renewFor(hold: Hold, leaseMs: number): Promise<LockStoreError | undefined> {
    const command = this.#renewal(leaseMs);
    const sentAt = this.#parts.clock.now();
    const [reply] = await this.#parts.store.renew([command]);
    if (this.#hold === hold && reply !== undefined) this.onRenewReply(command, sentAt, reply);
    return reply?.kind === 'unknown' ? reply.cause : undefined;
  }

  /**
   * Raises the stored fence above what others have seen, and mints a number from there.
   * @returns it @throws LockLostError if the store says that the lease is not ours · LockStoreError if it does not answer
   */
  async raiseFence(hold: Hold, seen: number): Promise<number> {
    this.#used = Math.max(this.#used, seen);
    const cause = await this.prolong(hold, this.#leaseMs);
    hold.assertHeld();
    if (cause !== undefined) throw cause;
    return ++this.#used;
  }

  /** The machine may have slept since the store last confirmed the lease. */
  get isSuspect(): boolean {
    this.#parts.noticeSuspend();
    return this.#suspectSince !== undefined;
  }

  noticeSuspend(): void {
    this.#parts.noticeSuspend();
  }

  /** The lease is kept for its hold, and then for nobody; not renewed. */
  commitUnknown(hold: Hold): void {
    if (this.#hold !== hold) return;
    this.#commitUnknown = true;
    if (this.#state !== 'held') return; // declared lost before, which ended nothing in the store
    this.#renewAt = Infinity;
    this.#schedule();
  }

  /** Declares the lease lost if its deadline has passed: also when a blocked event loop kept the timer from firing. */
  noticeDeadline(): void {
    this.#parts.scheduler.catchUp();
  }

  onDue(now: number): void {
    switch (this.#state) {
      case 'held':
        if (now >= this.#deadline) return this.#lose('expired');
        if (now >= this.#holdEnd) return this.#lose('max-hold');
        return this.#collect();
      case 'confirming':
        return this.#collect();
      case 'idle':
        return this.giveUp();
      case 'doubtful':
        this.#end();
        return this.#return.forget();
      case 'over':
        return;
      default:
        return unreachable(this.#state);
    }
  }

  #collect(): void {
    this.#renewAt = Infinity;
    this.#parts.watchdog.collect(this);
    this.#schedule();
  }

  #schedule(): void {
    this.#parts.scheduler.schedule(this, this.#nextDue());
  }

  #nextDue(): number {
    switch (this.#state) {
      case 'held':
        return Math.min(this.#deadline, this.#renewAt, this.#holdEnd);
      case 'confirming':
        return this.#renewAt;
      case 'doubtful':
        return this.#deadline;
      case 'idle':
        return Math.min(this.#idleUntil, this.#deadline);
      case 'over':
        return Infinity;
      default:
        return unreachable(this.#state);
    }
  }

  // ---- losing it --------------------------------------------------------------------------------------------

  /** Doubt ends sharing: nobody here gets this lease any more, local callers ask for a new one. */
  #lose(reason: LockLostReason): void {
    const hold = this.#hold;
    this.#end();
    if (hold === undefined) this.#giveBackLost();
    else this.#parts.report({ type: 'lost', key: this.key, error: hold.lose(reason) });
    this.#queue.over(this);
  }

  /** The grant had lapsed before it was confirmed: a new attempt, at the old place. */
  #askAgain(): void {
    this.#end();
    this.#return.forget();
    this.#queue.over(this, this.#grant.score);
  }

  #failToConfirm(unknown: Unknown): void {
    this.#end();
    this.#giveBackLost();
    this.#queue.storeFailed(this, unknown, this.#grant.score);
  }

  /** When the store has forgotten it at the latest: a renewal may have been carried out without being answered. */
  get #longestEnd(): number {
    return this.#deadline + this.#leaseMs;
  }

  #giveBackLost(): void {
    this.#return.afterLoss(this.#used, this.#longestEnd);
  }

  #end(): void {
    this.#state = 'over';
    this.#parts.scheduler.cancel(this);
  }

  // ---- what comes from outside ------------------------------------------------------------------------------

  onMessage(message: InboxMessage): void {
    switch (message.kind) {
      case 'wanted':
        if (this.#state === 'over' || this.#state === 'doubtful') return;
        this.#noteWaiters(1);
        return this.giveUp();
      case 'revoked':
        return this.#revoked();
      case 'grant': // repeated
      case 'head': // late
        return;
      default:
        return unreachable(message);
    }
  }

  /** An operator has taken the key away. The store has another value now, so there is nothing to give back. */
  #revoked(): void {
    switch (this.#state) {
      case 'held':
      case 'idle':
        return this.#lose('stolen');
      case 'confirming':
        return this.#askAgain();
      case 'doubtful':
        this.#end();
        return this.#return.forget();
      case 'over':
        return;
      default:
        return unreachable(this.#state);
    }
  }

  #noteWaiters(waiters: number): void {
    if (waiters > 0) this.#handovers.limit();
  }

  /** The server may be another one, or empty: renews at once. */
  lookAgain(): void {
    if (this.#state === 'idle') return this.giveUp();
    if (this.#state !== 'held' || this.#commitUnknown) return;
    this.#renewAt = this.#parts.clock.now();
    this.#schedule();
  }

  /** The machine may have slept for so long: our clock stood still while the lease went on. */
  suspect(sleptMs: number): void {
    this.#suspectSince = this.#parts.clock.now();
    this.#sleptMs += sleptMs;
    this.lookAgain();
  }

  /** The application closes: the holder is told, and the lease is left to run out. */
  abandonHold(): void {
    if (this.#state === 'held') this.#lose('shutdown');
  }
}
