import { type LockLostReason, LockStoreError } from '../lock.errors.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import { unreachable } from '../runtime/unreachable.js';
import { renewalDueAt, renewalRetryAt } from '../store/lease-timing.js';
import type { InboxMessage, RenewCommand, RenewReply, Unknown } from '../store/lock-store.js';
import type { TokenOwner } from '../store/token-registry.js';
import type { Scheduled } from '../time/scheduler.js';
import type { ClockStep } from '../time/suspend-detector.js';
import type { EngineParts } from './engine-parts.js';
import { FencingNumbers } from './fencing-numbers.js';
import { HandoverBudget } from './handover-budget.js';
import { Hold, type HoldKeeper } from './hold.js';
import { LeaseDeadline } from './lease-deadline.js';
import type { LeaseGrant } from './lease-grant.js';
import { LeaseRelease } from './lease-release.js';
import type { LeaseUser } from './lease-user.js';
import type { Renewable } from './watchdog.js';

/**
 * confirming  ours, but too short or too far spent to be handed out: it is renewed first, then offered to the queue
 * held        a call has it, or has just ended, and the queue decides what comes next
 * idle        no call has it; it is kept for a moment in case another call here wants the key
 * doubtful    nobody knows whether a transaction under it was committed: no call gets it, and it runs out
 * over        released, handed over or lost; only a lost one can still become doubtful, when its work has ended
 */
type State = 'confirming' | 'held' | 'idle' | 'doubtful' | 'over';

/**
 * This process's right to a key, for the life of one token: it is given to one call after another, kept alive, and
 * released.
 *
 * It is one file because it is one state machine: before you change a state here, you want to see every other place
 * that does. What can be understood without the states stands beside it: until when the lease lasts (`LeaseDeadline`),
 * which numbers its holds get (`FencingNumbers`), and how it ends in the store (`LeaseRelease`).
 *
 * Two rules hold in every state. Once the deadline has passed, nothing revives the lease, whatever a late answer says.
 * And a lease in doubt is given to no call: waiting calls ask for a new one.
 */
export class Lease implements Scheduled, Renewable, TokenOwner, HoldKeeper {
  place: Scheduled['place'];
  readonly key: string;
  readonly #parts: EngineParts;
  readonly #user: LeaseUser;
  readonly #grant: LeaseGrant;
  readonly #deadline: LeaseDeadline;
  readonly #numbers: FencingNumbers;
  readonly #handovers: HandoverBudget;
  readonly #ending: LeaseRelease;
  #state: State = 'confirming';
  /** Still as the store granted it: neither handed out nor renewed yet. */
  #isFresh = true;
  /** The length that we ask the store for, in milliseconds: as the present hold wants it. */
  #leaseMs: number;
  #renewAt: number;
  #holdEnd = Infinity;
  #idleUntil = Infinity;
  #renewalFailed = false;
  /** The watchdog has sent a renewal, and there is no answer yet. */
  #isSent = false;
  /** A renewal is on its way for which a call waits. */
  #isRenewing = false;
  /** The label that was last written for `inspect` under this lease. */
  #label: string | undefined;
  #hold: Hold | undefined;
  /** The hold that has just ended, while the queue decides who is next. */
  #before: Hold | undefined;
  /** Nobody knows whether the transaction under the present hold was committed. */
  #commitUnknown = false;
  /** Called when the store has confirmed the suspect lease, or when it is over. */
  #onCertain: (() => void)[] = [];
  /** The answer to a COMMIT under the present hold is late. The hold cannot end before that of its transaction. */
  #isPaused = false;

  constructor(parts: EngineParts, key: string, user: LeaseUser, grant: LeaseGrant) {
    this.#parts = parts;
    this.key = key;
    this.#user = user;
    this.#grant = grant;
    this.#leaseMs = grant.leaseMs;
    this.#deadline = new LeaseDeadline(grant, parts.stepsAfter(grant.introducedAt));
    this.#renewAt = renewalDueAt(grant.introducedAt, grant.lengthMs);
    this.#numbers = new FencingNumbers(grant);
    this.#handovers = new HandoverBudget(parts.clock, parts.options.localHandovers);
    this.#ending = new LeaseRelease(parts, key, grant.token);
    this.#noteWaiters(grant.waiters);
    parts.tokens.assign(grant.token, this);
  }

  get state(): State {
    return this.#state;
  }

  /** Whether no call has it any more, and the store need not be asked before the next one gets it. */
  get isFree(): boolean {
    return this.#state === 'idle' || (this.#state === 'held' && this.#hold === undefined);
  }

  get deadline(): number {
    return this.#deadline.at;
  }

  remainingMs(): number {
    const end = Math.min(this.#deadline.atWorst, this.#holdEnd);
    return Math.max(0, end - this.#parts.clock.now());
  }

  leftMs(): number {
    return Math.max(0, Math.min(this.leaseLeftMs(), this.holdLeftMs()));
  }

  leaseLeftMs(): number {
    return Math.max(0, this.#deadline.at - this.#parts.clock.now());
  }

  holdLeftMs(): number {
    return this.#holdEnd - this.#parts.clock.now();
  }

  // ---- handing it out ---------------------------------------------------------------------------------------

  /**
   * A fresh grant may be short; it is offered to the first call if at least half of it is left, and if the store takes
   * its word for it.
   */
  start(): void {
    const { lengthMs, leaseMs, cameBy, score, introducedAt } = this.#grant;
    const isHint = cameBy === 'message' && this.#parts.store.mustConfirmMessages === true;
    const isFirstAnswer = cameBy === 'answer' && score === undefined;
    if (isFirstAnswer) this.#user.answers.took(this.#parts.clock.now() - introducedAt);
    if (!isHint && this.remainingMs() >= lengthMs / 2) this.#offer();
    else if (this.#user.answers.areTooSlowFor(leaseMs)) this.#refuse(leaseMs);
    else this.#confirm(leaseMs);
  }

  #offer(): void {
    void this.#user.onFree().catch(() => {}); // already reported
  }

  /**
   * Whether a call may have this very lease, perhaps after a renewal. If not, the lease is handed over and asked for
   * again, for one of two reasons: other processes have waited long enough, or one of the calls has a fixed lease. A
   * fixed lease is shared with no other call, so it must be unused, and asked for with exactly this length.
   * @param waitsSince when the call came
   */
  mayServe({ renew, leaseMs }: ResolvedLockOptions, waitsSince: number): boolean {
    const before = this.#before;
    this.#suspectWaiters();
    if (before !== undefined && (!before.options.renew || this.#handovers.isSpentFor(waitsSince)))
      return false;
    return renew || (this.#numbers.areUnused && this.#grant.leaseMs === leaseMs);
  }

  /**
   * Gives the lease to a call.
   * @param isPart the call waits for other keys as well: the hold begins later
   * @returns undefined if the store must confirm the lease first, or if it has just ended: the call goes on waiting
   */
  handOut(options: ResolvedLockOptions, isPart: boolean): Hold | undefined {
    if (this.#before !== undefined) this.#handovers.spend();
    this.#before = undefined;
    this.#parts.noticeSuspend();
    if (this.#state === 'over') return undefined; // it was idle, and the suspend has ended it: the key is asked for again
    if (!this.#isGoodFor(options)) {
      if (this.#user.answers.areTooSlowFor(options.leaseMs)) this.#refuse(options.leaseMs);
      else this.#confirm(options.leaseMs);
      return undefined;
    }
    this.#isFresh = false;
    this.#leaseMs = options.leaseMs;
    this.#state = 'held';
    const hold = new Hold(this, this.#numbers.next(), options);
    this.#hold = hold;
    if (isPart) this.#schedule();
    else hold.begin(this.#parts.clock.now());
    this.#show(options.label);
    return hold;
  }

  /** The lease would be renewed for ever, and nobody would ever get it. */
  #refuse(leaseMs: number): void {
    const cause = this.#user.answers.tooSlow(this.key, leaseMs);
    this.#user.answersTooSlowly(cause, leaseMs);
  }

  /** Whether the work may begin without asking the store first; `start` has judged the length of a fresh grant. */
  #isGoodFor({ leaseMs, renew }: ResolvedLockOptions): boolean {
    if (this.#numbers.areSpent) return false;
    const now = this.#parts.clock.now();
    const share = renew && this.#isFresh ? 0 : 0.5;
    if (!this.#deadline.isEnoughFor(leaseMs, share, now)) return false;
    // A fixed lease is not prolonged later, so it must have its whole length now.
    return renew || this.#deadline.isWholeFor(leaseMs, now);
  }

  holdBegins(hold: Hold, now: number): void {
    if (this.#hold !== hold || this.#state !== 'held') return;
    const { maxHoldMs, leaseMs, renew } = hold.options;
    this.#holdEnd = now + maxHoldMs;
    if (!renew) {
      this.#deadline.fix(now, leaseMs);
      this.#renewAt = Infinity;
    }
    this.#schedule();
  }

  /**
   * Another call waits here. If no number is reserved for it, or the lease is short because it came by message, the
   * store is asked now, so that the call need not wait for that when the present hold has ended. While the store fails,
   * it is asked again after the usual pause, however many calls come.
   */
  expectCall(): void {
    const hold = this.#hold;
    if (this.#state !== 'held' || hold?.options.renew !== true || this.#endsByItself) return;
    if (this.#renewalFailed) return;
    if (!this.#isGoodFor(hold.options)) this.#renewNow();
  }

  /** Writes the label once for each lease and renewal, and again only if the next call has another one, or none. */
  #show(label: string | undefined): void {
    if (label === this.#label) return;
    if (label === undefined) this.#removeLabel();
    this.#label = label;
    this.#writeLabel();
  }

  /** The label lasts as long as the lease. */
  #writeLabel(): void {
    if (this.#label === undefined) return;
    const { directory } = this.#parts.store;
    const leftMs = Math.ceil(this.#deadline.at - this.#parts.clock.now());
    const forMs = Math.max(this.#leaseMs, leftMs);
    const written = directory.label(this.key, this.#grant.token, this.#label, forMs);
    void written.catch(() => {}); // only people miss it
  }

  /** Before a release is sent: the next holder may have a label of its own. */
  #removeLabel(): void {
    if (this.#label === undefined) return;
    const { directory } = this.#parts.store;
    void directory.unlabel(this.key).catch(() => {}); // it also ends by itself
  }

  /** Renews before a call gets it. No call holds it meanwhile, so the store's answer decides, not our deadline. */
  #confirm(leaseMs: number): void {
    if (this.#user.answers.isTooSlowFor(leaseMs))
      this.#user.storeFails(this.#user.answers.tooSlow(this.key, leaseMs));
    if (this.#isHearsay) this.#numbers.doubt();
    this.#isFresh = false;
    this.#leaseMs = leaseMs;
    this.#state = 'confirming';
    this.#renewAt = Infinity;
    this.#schedule();
    this.#renewNow();
  }

  /** Unless a renewal that was asked for like this is on its way. */
  #renewNow(): void {
    if (this.#isRenewing) return;
    this.#isRenewing = true;
    this.#parts.watchdog.collect(this);
    this.#parts.watchdog.flush();
  }

  /**
   * A lease that was lost is still released, because it may only have been believed lost. With an unknown commit, lost
   * or not, the key is never free before the lease has run out.
   */
  endHold(hold: Hold): Promise<boolean> {
    this.noticeDeadline();
    if (this.#hold !== hold) return Promise.resolve(false);
    this.#hold = undefined;
    this.#holdEnd = Infinity;
    const isLost = this.#state !== 'held';
    if (this.#commitUnknown) return this.#endInDoubt(hold.keptUntil, !isLost);
    if (isLost) {
      this.#releaseLost();
      return Promise.resolve(false);
    }
    const keepMs = hold.keptUntil - this.#parts.clock.now();
    if (keepMs > 0) return this.release(Math.ceil(keepMs));
    this.#before = hold;
    return this.#user.onFree();
  }

  /** Doubt ends sharing: the transaction may yet be committed, so nobody gets the key before the lease has ended. */
  #endInDoubt(keptUntil: number, wasHeld: boolean): Promise<boolean> {
    if (wasHeld && keptUntil > this.#deadline.at) {
      const now = this.#parts.clock.now();
      const carriedOutNow = now + this.#leaseMs; // a renewal on its way may be late
      const until = Math.max(keptUntil, this.#deadline.askedUntil, carriedOutNow);
      return this.release(Math.ceil(until - now));
    }
    this.#state = 'doubtful';
    this.#tellCertain();
    this.#schedule();
    this.#user.over(this);
    return Promise.resolve(wasHeld);
  }

  // ---- when nobody here wants it ----------------------------------------------------------------------------

  /**
   * Keeps the lease for a moment if the options of the last hold allow that; otherwise releases it. What a call gives
   * back because it did not get all its keys is not kept: it would only be in the way of others.
   */
  rest(): Promise<boolean> {
    const before = this.#before;
    this.#suspectWaiters();
    const { lingerMs } = this.#parts.options;
    const { linger = false, renew = false } = before?.options ?? {};
    const hasWorked = before !== undefined && before.since !== Infinity;
    const mayLinger = linger && renew && hasWorked && !this.#handovers.isLimited;
    if (lingerMs === 0 || !mayLinger) return this.release();
    this.#state = 'idle';
    this.#idleUntil = this.#parts.clock.now() + lingerMs;
    this.#schedule();
    return Promise.resolve(true);
  }

  /** @param keepMs the key stays taken for this long, by nobody @returns whether the lease was ours until now */
  release(keepMs = 0): Promise<boolean> {
    this.#end();
    this.#removeLabel();
    const released = this.#ending.release(this.#numbers.toReport, this.#deadline.latest, keepMs);
    this.#user.over(this); // calls that came meanwhile ask again, behind the release
    return released;
  }

  /**
   * Hands it over to the next in the store's queue, and asks again.
   * @param since when the call asked that is served next
   * @returns whether the lease was ours until now
   */
  requeue(leaseMs: number, since: number): Promise<boolean> {
    // Nobody would wait for the answer to a release, so nobody waits for this one: the queue asks again behind it.
    if (this.#parts.outages.causeOfLong(this.key) !== undefined) return this.release();
    this.#end();
    this.#removeLabel();
    const next = this.#user.askAgain(this, leaseMs);
    const waitedMs = this.#handovers.isStrict ? this.#parts.clock.now() - since : 0;
    return this.#ending.requeue(next, this.#numbers.toReport, this.#deadline.latest, waitedMs);
  }

  /** Releases an idle lease: another process wants the key, or the time for which it is kept is over. */
  giveUp(): void {
    if (this.#state === 'idle') void this.release().catch(() => {}); // already reported
  }

  // ---- keeping it -------------------------------------------------------------------------------------------

  renewCommand(): RenewCommand | undefined {
    if (this.#state === 'over' || this.#state === 'doubtful') return undefined;
    this.#isSent = true;
    const now = this.#parts.clock.now();
    const suspectMs = this.#deadline.isSuspect ? this.#deadline.lengthLeftMs(now) : 0;
    if (!this.#isFixed) return this.#renewal(Math.max(this.#leaseMs, suspectMs));
    // A fixed lease is only checked: the store confirms what is left of it, and no more.
    const leftMs = Math.max(1, Math.ceil(this.#deadline.at - now));
    return this.#renewal(suspectMs === 0 ? leftMs : suspectMs);
  }

  #renewal(leaseMs: number): RenewCommand {
    this.#deadline.asked(this.#parts.clock.now(), leaseMs);
    const { areLow, areSpent, used } = this.#numbers;
    const reserves = areLow || (areSpent && this.#isRenewing) || this.#isHearsay;
    return { key: this.key, token: this.#grant.token, leaseMs, used, reserves };
  }

  /** Its grant came as a message, which may be an old one, and no hold has been given a number of it. */
  get #isHearsay(): boolean {
    return this.#grant.cameBy === 'message' && this.#numbers.areUnused;
  }

  onRenewReply(command: RenewCommand, sentAt: number, reply: RenewReply): void {
    this.#parts.scheduler.catchUp();
    this.#isRenewing = false;
    this.#isSent = false;
    if (this.#state === 'over' || this.#state === 'doubtful') return;
    switch (reply.kind) {
      case 'renewed':
        return this.#renewed(command, sentAt, reply.blockEnd, reply.waiters);
      case 'lost':
        if (this.#state !== 'confirming') return this.#lose('deleted');
        this.#user.answers.took(this.#parts.clock.now() - sentAt);
        return this.#askAgain();
      case 'unknown':
        return this.#notRenewed(reply);
      default:
        return unreachable(reply);
    }
  }

  #renewed({ leaseMs }: RenewCommand, sentAt: number, blockEnd: number, waiters: number): void {
    this.#deadline.renewed(sentAt, leaseMs);
    if (this.#isHearsay) this.#numbers.confirmed(blockEnd);
    this.#numbers.reserved(blockEnd);
    this.#renewalFailed = false;
    this.#writeLabel();
    // As early as ever, however far `ensureRemaining` has prolonged it: a renewal also notices that the key is gone.
    const dueAt = renewalDueAt(sentAt, Math.min(leaseMs, this.#leaseMs));
    this.#renewAt = this.#endsByItself ? Infinity : dueAt;
    // It was sent before the machine may have slept: the next one tells.
    if (this.#deadline.isSuspect && !this.#commitUnknown) this.#renewAt = this.#retryAt;
    if (this.remainingMs() > 0) this.#tellCertain();
    this.#noteWaiters(waiters);
    this.#user.answers.took(this.#parts.clock.now() - sentAt);
    if (this.#state === 'confirming') this.#offer();
    else this.#schedule();
  }

  /** Nobody knows whether it was renewed. A held lease stays ours until its deadline, and the renewal is repeated. */
  #notRenewed(unknown: Unknown): void {
    const isConfirming = this.#state === 'confirming';
    const isOver = this.#deadline.at <= this.#parts.clock.now();
    if (isConfirming && (isOver || this.#user.isEmpty)) return this.#failToConfirm(unknown);
    this.#reportFailure(unknown.cause);
    if (isConfirming) this.#user.storeFails(unknown.cause);
    if (this.#commitUnknown || (this.#isFixed && !this.#deadline.isSuspect)) return;
    this.#renewAt = this.#retryAt;
    this.#schedule();
  }

  get #retryAt(): number {
    return renewalRetryAt(this.#parts.clock.now());
  }

  get #endsByItself(): boolean {
    return this.#commitUnknown || this.#isPaused || this.#isFixed;
  }

  /** Until the work of a fixed hold begins, its lease is renewed like any other. */
  get #isFixed(): boolean {
    return this.#hold?.options.renew === false && this.#hold.since !== Infinity;
  }

  #reportFailure(cause: LockStoreError): void {
    if (this.#renewalFailed) return;
    this.#renewalFailed = true;
    const remainingMs = this.leftMs(); // until then it is tried again
    const isAway = this.#parts.outages.tellOf(this.key); // said once, it need not be logged for every lock
    this.#parts.report({ type: 'renewal-unknown', key: this.key, remainingMs, cause, isAway });
  }

  prolong(ms: number): Promise<LockStoreError | undefined> {
    return this.renewFor(Math.max(this.#leaseMs, Math.ceil(ms * 1.02) + 100));
  }

  async renewFor(leaseMs: number): Promise<LockStoreError | undefined> {
    const command = this.#renewal(leaseMs);
    const sentAt = this.#parts.clock.now();
    const [answer] = this.#parts.store.renew([command]);
    const reply = (await answer) as RenewReply;
    this.onRenewReply(command, sentAt, reply);
    return reply.kind === 'unknown' ? reply.cause : undefined;
  }

  async raiseFence(hold: Hold, seen: number): Promise<number> {
    this.#numbers.raise(seen);
    const cause = await this.prolong(this.#leaseMs);
    hold.assertHeld();
    if (cause !== undefined) throw cause;
    if (this.#numbers.areSpent) throw this.#noNumbers(); // as long as the key is moving to another server
    return this.#numbers.next();
  }

  #noNumbers(): LockStoreError {
    const reason = 'Redis has renewed the lease, but could not reserve fencing tokens; try again';
    return new LockStoreError(
      `Cannot raise the fencing token of lock '${this.key}': ${reason}`,
      this.key,
    );
  }

  get isSuspect(): boolean {
    this.#parts.noticeSuspend();
    return this.#deadline.isSuspect;
  }

  noticeSuspend(): void {
    this.#parts.noticeSuspend();
  }

  whenCertain(): Promise<void> {
    if (this.#state !== 'held' || this.remainingMs() > 0) return Promise.resolve();
    return new Promise((resolve) => this.#onCertain.push(resolve));
  }

  #tellCertain(): void {
    for (const tell of this.#onCertain.splice(0)) tell();
  }

  commitUnknown(hold: Hold): void {
    if (this.#hold !== hold) return;
    this.#commitUnknown = true;
    if (this.#state !== 'held') return; // it was declared lost before, which ended nothing in the store
    this.#renewAt = Infinity;
    this.#schedule();
  }

  setRenewing(hold: Hold, renews: boolean): void {
    if (this.#hold !== hold) return;
    this.#isPaused = !renews;
    if (this.#state !== 'held') return;
    this.#renewAt = renews && !this.#endsByItself ? this.#parts.clock.now() : Infinity;
    this.#schedule();
  }

  noticeDeadline(): void {
    this.#parts.scheduler.catchUp();
  }

  onDue(now: number): void {
    switch (this.#state) {
      case 'held':
        if (now >= this.#deadline.at) return this.#lose('expired');
        if (now >= this.#holdEnd) return this.#lose('max-hold');
        return this.#collect();
      case 'confirming':
        return this.#collect();
      case 'idle':
        return this.giveUp();
      case 'doubtful':
      case 'over':
        return this.#forget();
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
        return Math.min(this.#deadline.at, this.#renewAt, this.#holdEnd);
      case 'confirming':
        return this.#renewAt;
      case 'doubtful':
        return this.#forgottenAt;
      case 'idle':
        return Math.min(this.#idleUntil, this.#deadline.at);
      case 'over':
        return this.#hold === undefined ? Infinity : this.#forgottenAt;
      default:
        return unreachable(this.#state);
    }
  }

  /** A token that nobody knows is released when others want the key; a renewal may be carried out late. */
  get #forgottenAt(): number {
    return this.#deadline.latest + this.#leaseMs;
  }

  // ---- losing it --------------------------------------------------------------------------------------------

  /** Doubt ends sharing: no call gets this lease any more, and the calls that wait ask for a new one. */
  #lose(reason: LockLostReason): void {
    const hold = this.#hold;
    this.#end();
    if (hold === undefined) {
      this.#releaseLost();
    } else {
      const error = hold.lose(reason);
      // Before its work starts, a call takes the key again, or fails with this error.
      if (hold.since < Infinity) this.#parts.report({ type: 'lost', key: this.key, error });
      this.#schedule(); // its work may never end
    }
    this.#user.over(this);
  }

  /** The grant had lapsed before it was confirmed: the queue asks again, from the old place in the store's queue. */
  #askAgain(): void {
    this.#forget();
    this.#user.over(this, this.#grant.score);
  }

  #failToConfirm(unknown: Unknown): void {
    this.#end();
    this.#releaseLost();
    this.#user.storeFailed(this, unknown, this.#grant.score);
  }

  #releaseLost(): void {
    this.#parts.scheduler.cancel(this);
    this.#ending.afterLoss(this.#deadline.latest);
  }

  /** Ends it without a command: the store does not have it any more. */
  #forget(): void {
    this.#end();
    this.#ending.forget();
  }

  #end(): void {
    this.#state = 'over';
    this.#parts.scheduler.cancel(this);
    this.#tellCertain();
  }

  // ---- what comes from outside ------------------------------------------------------------------------------

  onMessage(message: InboxMessage): void {
    switch (message.kind) {
      case 'wanted':
        return this.#noteWaiters(1);
      case 'revoked':
        return this.#revoked();
      case 'grant': // repeated
      case 'head': // late
        return;
      default:
        return unreachable(message);
    }
  }

  /** An operator has taken the key away. The store has another value now, so there is nothing to release. */
  #revoked(): void {
    switch (this.#state) {
      case 'held':
      case 'idle':
        return this.#lose('revoked');
      case 'confirming':
        return this.#askAgain();
      case 'doubtful':
        return this.#forget();
      case 'over':
        return;
      default:
        return unreachable(this.#state);
    }
  }

  /** While no message arrives, nobody can tell us that another process wants the key. */
  #suspectWaiters(): void {
    if (this.#parts.silences.concern([this.key])) this.#handovers.limit();
  }

  #noteWaiters(waiters: number): void {
    if (waiters === 0) return;
    this.#handovers.limit();
    this.giveUp();
  }

  /** The server may be another one, or empty: renews at once. */
  lookAgain(): void {
    if (this.#state === 'idle') return this.giveUp();
    if (this.#state !== 'held' || this.#commitUnknown || this.#isPaused) return;
    // A renewal without an answer is sent again on a new connection. One more would only keep the others waiting.
    if (this.#isSent && !this.#deadline.isSuspect) return;
    this.#renewAt = this.#parts.clock.now();
    this.#schedule();
  }

  /** The machine may have slept: our clock stood still while the lease ran on in the store. */
  suspect(step: ClockStep): void {
    this.#deadline.suspect(step);
    if (this.#deadline.isSuspect) this.lookAgain();
  }

  /** The application closes: the signal of the hold aborts, and the lease is left to run out. */
  abandonHold(): void {
    if (this.#state === 'held') this.#lose('shutdown');
  }
}
