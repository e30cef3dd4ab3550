import { Hold } from './hold.js';
import type { LocalQueue } from './local-queue.js';
import type { LockContext } from './lock-context.js';
import type {
  AcquireReply,
  Granted,
  InboxMessage,
  LeaveReply,
  Queued,
  RecheckReply,
  RenewCommand,
  RenewReply,
  RequeueReply,
  Unknown,
} from './lock-store.js';
import { LockStoreError, type LockLostReason } from './lock.errors.js';
import { driftMarginMs, renewalDueAt } from './lease-timing.js';
import { unreachable } from './unreachable.js';
import { RecheckTimer } from './recheck-timer.js';
import type { Scheduled } from './scheduler.js';
import type { Renewable } from './watchdog.js';

/**
 * asking      ACQUIRE, or RELEASE that queues again, is on its way
 * waiting     in the queue; woken by a grant, or by its re-check timer
 * leaving     last try at the end of the wait is on its way
 * confirming  ours, but too short or too far spent to be handed out: RENEW first
 * held        a caller has it
 * over        released, lost or given up; nothing leads out of here
 */
type State = 'asking' | 'waiting' | 'leaving' | 'confirming' | 'held' | 'over';

/** Local hand-overs stop after this time once another process waits, whatever `localHandovers` allows. */
const LOCAL_HANDOVER_MS = 1_000;

const RENEWAL_RETRY_MS = 100;

/**
 * One attempt of this process to get a key's lease, and the lease once it is ours. A state machine driven by
 * replies, messages and the scheduler.
 *
 * Two rules make its arithmetic sound, whatever is late, lost or repeated on the way:
 * a token is introduced once and granted at most once, so every new command that could be granted brings a new one;
 * and a lease counts from the *sending* of the command that introduced its token (or of the last renewal that was
 * answered), never from the receipt of anything.
 */
export class Lease implements Scheduled, Renewable {
  place: Scheduled['place'];
  readonly name: string;
  readonly #context: LockContext;
  readonly #queue: LocalQueue;
  #state: State = 'asking';

  #token = '';
  #introducedAt = 0;
  /** The token of a re-check on its way; it replaces `#token` when the store says so. */
  #pending: { readonly token: string; readonly introducedAt: number } | undefined;
  /** The place in the store's queue. */
  #score: number | undefined;
  readonly #recheck: RecheckTimer;

  /** What we ask the store for, in milliseconds. */
  #leaseMs = 0;
  #deadline = -Infinity;
  #renewAt = Infinity;
  #renewalFailed = false;
  #hold: Hold | undefined;
  /** Highest fencing token used, and the highest that may be used before the next renewal. */
  #used = 0;
  #blockEnd = 0;
  /** Another process waits: what is left for local hand-overs. */
  #wanted: { since: number; handovers: number } | undefined;

  constructor(context: LockContext, queue: LocalQueue) {
    this.#context = context;
    this.#queue = queue;
    this.name = queue.key;
    this.#recheck = new RecheckTimer(context);
  }

  get state(): State {
    return this.#state;
  }

  get deadline(): number {
    return this.#deadline;
  }

  remainingMs(): number {
    return Math.max(0, this.#deadline - this.#context.clock.now());
  }

  // ---- getting it -------------------------------------------------------------------------------------------

  /** @param score a place in the queue kept from an earlier attempt */
  ask(leaseMs: number, nowait: boolean, score?: number): void {
    this.#leaseMs = leaseMs;
    this.#score = score;
    const token = this.#introduce();
    const command = { name: this.name, token, leaseMs, nowait };
    void this.#context.store
      .acquire(score === undefined ? command : { ...command, score })
      .then((reply) => this.#onAskReply(token, reply));
  }

  /** Registered before its command is sent: a grant may overtake the reply. */
  #introduce(): string {
    this.#state = 'asking';
    this.#token = this.#context.tokens.introduce(this);
    this.#introducedAt = this.#context.clock.now();
    return this.#token;
  }

  #onAskReply(token: string, reply: AcquireReply | RequeueReply): void {
    this.#context.scheduler.catchUp();
    if (this.#state !== 'asking' || this.#token !== token) return; // its grant came first
    switch (reply.kind) {
      case 'granted':
        return this.#onGranted(reply, this.#introducedAt, this.#leaseMs);
      case 'queued':
        return this.#onQueued(reply);
      case 'busy':
        this.#finish();
        this.#context.tokens.forget(token);
        return this.#queue.notAcquired(this);
      case 'unknown':
        return this.#abandon(reply);
      default:
        return unreachable(reply);
    }
  }

  #onQueued(reply: Queued): void {
    this.#state = 'waiting';
    this.#score = reply.score;
    this.#recheck.queued(reply);
    this.#queue.mustWait();
    if (this.#queue.isEmpty) this.leave();
    else this.#context.scheduler.schedule(this, this.#recheck.dueAt);
  }

  #sendRecheck(): void {
    const token = this.#context.tokens.introduce(this);
    const pending = { token, introducedAt: this.#context.clock.now() };
    this.#pending = pending;
    this.#recheck.sent();
    void this.#context.store
      .recheck({
        name: this.name,
        token: this.#token,
        newToken: token,
        leaseMs: this.#leaseMs,
        score: this.#score ?? 0,
      })
      .then((reply) => this.#onRecheckReply(pending, reply));
  }

  #onRecheckReply(sent: { token: string; introducedAt: number }, reply: RecheckReply): void {
    this.#context.scheduler.catchUp();
    if (this.#token === sent.token) return; // its grant came first
    if (this.#pending !== sent || this.#state === 'over') {
      // The old token was granted, or the wait given up, while this was on its way. What it left in the store must go.
      if (reply.kind === 'granted' && reply.token !== sent.token)
        this.#context.tokens.forget(sent.token);
      else this.#takeBack([sent.token], sent.introducedAt);
      return;
    }
    if (this.#state !== 'waiting') return; // a last try, or a leave, is on its way and speaks for both tokens
    switch (reply.kind) {
      case 'granted':
        return this.#onGranted(reply, this.#introductionOf(reply.token), this.#leaseMs);
      case 'queued':
        this.#context.tokens.forget(this.#token);
        this.#token = sent.token;
        this.#introducedAt = sent.introducedAt;
        this.#pending = undefined;
        return this.#onQueued(reply);
      case 'unknown':
        return this.#abandon(reply);
      default:
        return unreachable(reply);
    }
  }

  #introductionOf(token: string): number {
    return this.#pending?.token === token ? this.#pending.introducedAt : this.#introducedAt;
  }

  /** The wait of the last local caller is over: the store is asked once more, and its answer is final. */
  tryOnceMore(): void {
    this.#state = 'leaving';
    this.#context.scheduler.cancel(this);
    void this.#context.store
      .leave({ name: this.name, tokens: this.#waitingTokens(), take: true, leaseMs: this.#leaseMs })
      .then((reply) => this.#onLastReply(reply));
  }

  #onLastReply(reply: LeaveReply): void {
    this.#context.scheduler.catchUp();
    if (this.#state !== 'leaving') return;
    switch (reply.kind) {
      case 'granted':
        return this.#onGranted(reply, this.#introductionOf(reply.token), this.#leaseMs);
      case 'left':
        this.#forgetTokens();
        this.#finish();
        return this.#queue.notAcquired(this);
      case 'unknown':
        return this.#abandon(reply);
      default:
        return unreachable(reply);
    }
  }

  /** Nobody here waits any more. A grant that crosses this is handed on by the store. */
  leave(): void {
    if (this.#state !== 'waiting') return; // the reply on its way finds the queue empty and gives back what it got
    this.#takeBack(this.#waitingTokens(), this.#introducedAt);
    this.#finish();
    this.#queue.leaseOver(this);
  }

  /** The store did not answer: nobody knows whether we have the lease, or a place in the queue. Both are undone. */
  #abandon({ cause }: Unknown): void {
    this.#takeBack(this.#waitingTokens(), this.#introducedAt);
    this.#finish();
    this.#queue.storeFailed(this, cause, this.#score);
  }

  #takeBack(tokens: readonly [string, string?], introducedAt: number): void {
    this.#context.cleanUp.leave(this.name, tokens, introducedAt + this.#leaseMs, () => {
      for (const token of tokens) if (token !== undefined) this.#context.tokens.forget(token);
    });
  }

  #waitingTokens(): readonly [string, string?] {
    return this.#pending === undefined ? [this.#token] : [this.#token, this.#pending.token];
  }

  #forgetTokens(): void {
    for (const token of this.#waitingTokens())
      if (token !== undefined) this.#context.tokens.forget(token);
    this.#pending = undefined;
  }

  // ---- having it --------------------------------------------------------------------------------------------

  /** @param lengthMs how long the store keeps it from the moment of the grant, which came after `introducedAt` */
  #onGranted(grant: Omit<Granted, 'kind'>, introducedAt: number, lengthMs: number): void {
    if (grant.token !== this.#token) {
      this.#context.tokens.forget(this.#token);
      this.#token = grant.token;
    }
    this.#pending = undefined; // a re-check still on its way finds out, and takes back what it left in the store
    this.#queue.answered();
    this.#used = grant.fence - 1;
    this.#blockEnd = grant.blockEnd;
    this.#countFrom(introducedAt, lengthMs);
    const asked = this.#wanted === undefined ? 0 : 1; // a notice that overtook the grant
    this.#wanted = undefined;
    this.#noteWaiters(grant.waiters + asked);
    if (this.remainingMs() < lengthMs / 2) this.#confirm(this.#leaseMs);
    else this.#handOut(0);
  }

  #countFrom(sentAt: number, lengthMs: number): void {
    this.#deadline = sentAt + lengthMs - driftMarginMs(lengthMs);
    this.#renewAt = renewalDueAt(sentAt, lengthMs);
  }

  #noteWaiters(waiters: number): void {
    if (waiters > 0) {
      this.#wanted ??= {
        since: this.#context.clock.now(),
        handovers: this.#context.options.localHandovers,
      };
    }
  }

  /** @param share of the caller's lease that must be left; a fresh grant was measured by its own length */
  #handOut(share = 0.5): void {
    const caller = this.#queue.first;
    if (caller === undefined) {
      void this.#release().catch(() => {});
      return;
    }
    const { leaseMs } = caller.options;
    if (
      this.remainingMs() < leaseMs * share ||
      this.remainingMs() === 0 ||
      this.#used >= this.#blockEnd
    ) {
      return this.#confirm(leaseMs);
    }
    this.#leaseMs = leaseMs;
    this.#state = 'held';
    this.#hold = new Hold(this, ++this.#used);
    this.#schedule();
    this.#queue.handOut(caller, this.#hold);
  }

  /** Renews before anybody is told that he holds it. */
  #confirm(leaseMs: number): void {
    this.#leaseMs = leaseMs;
    this.#state = 'confirming';
    this.#renewAt = Infinity;
    this.#schedule();
    this.#context.watchdog.collect(this);
    this.#context.watchdog.flush();
  }

  /** The holder has finished. @returns whether the lease was ours until now */
  async endHold(hold: Hold): Promise<boolean> {
    this.noticeDeadline();
    if (this.#hold !== hold) return false;
    this.#hold = undefined;
    if (this.#state !== 'held') {
      this.#giveBackLost();
      return false;
    }
    if (this.#queue.first === undefined) return this.#release();
    if (!this.#mayHandOver()) return this.#requeue(this.#queue.first.options.leaseMs);
    if (this.#wanted !== undefined) this.#wanted.handovers--;
    this.#handOut();
    return true;
  }

  #mayHandOver(): boolean {
    if (this.#wanted === undefined) return true;
    const { since, handovers } = this.#wanted;
    return handovers > 0 && this.#context.clock.now() - since < LOCAL_HANDOVER_MS;
  }

  async #release(): Promise<boolean> {
    const token = this.#token;
    this.#finish();
    this.#queue.leaseOver(this);
    const reply = await this.#context.cleanUp.release(
      { name: this.name, token, used: this.#used },
      this.#deadline,
      () => this.#context.tokens.forget(token),
    );
    switch (reply.kind) {
      case 'released':
        return true;
      case 'lost':
        return false;
      case 'unknown':
        throw this.#releaseUnknown(reply.cause);
      default:
        return unreachable(reply);
    }
  }

  /** Others have waited long enough: hands the lease over and stands in the queue again, in one step. */
  async #requeue(leaseMs: number): Promise<boolean> {
    const old = { name: this.name, token: this.#token, used: this.#used };
    const oldDeadline = this.#deadline;
    this.#leaseMs = leaseMs;
    this.#score = undefined;
    this.#wanted = undefined;
    this.#deadline = -Infinity;
    this.#context.scheduler.cancel(this);
    const newToken = this.#introduce();
    const reply = await this.#context.store.requeue({ ...old, newToken, leaseMs });
    const forgetOld = (): void => this.#context.tokens.forget(old.token);
    if (reply.kind === 'unknown') void this.#context.cleanUp.release(old, oldDeadline, forgetOld);
    else forgetOld();
    this.#onAskReply(newToken, reply);
    if (reply.kind === 'unknown') throw this.#releaseUnknown(reply.cause);
    return true;
  }

  #releaseUnknown(cause: LockStoreError): LockStoreError {
    this.#context.report({ type: 'release-unknown', key: this.name, cause });
    return new LockStoreError(
      `Cannot tell whether lock '${this.name}' was released: ${cause.message}; it ends by itself after its lease`,
      this.name,
      { cause },
    );
  }

  // ---- keeping it -------------------------------------------------------------------------------------------

  renewCommand(): RenewCommand | undefined {
    if (this.#state !== 'held' && this.#state !== 'confirming') return undefined;
    return { name: this.name, token: this.#token, leaseMs: this.#leaseMs, used: this.#used };
  }

  onRenewReply(command: RenewCommand, sentAt: number, reply: RenewReply): void {
    this.#context.scheduler.catchUp();
    if (this.#token !== command.token || (this.#state !== 'held' && this.#state !== 'confirming'))
      return;
    switch (reply.kind) {
      case 'renewed':
        this.#countFrom(sentAt, command.leaseMs);
        this.#blockEnd = reply.blockEnd;
        this.#renewalFailed = false;
        this.#noteWaiters(reply.waiters);
        if (this.#state === 'confirming') this.#handOut();
        else this.#schedule();
        return;
      case 'lost':
        return this.#state === 'held' ? this.#lose('stolen') : this.#askAgain();
      case 'unknown':
        if (this.#state === 'confirming' && this.remainingMs() === 0) return this.#abandon(reply);
        if (!this.#renewalFailed) {
          this.#renewalFailed = true;
          const remainingMs = this.remainingMs();
          this.#context.report({
            type: 'renewal-unknown',
            key: this.name,
            remainingMs,
            cause: reply.cause,
          });
        }
        this.#renewAt = this.#context.clock.now() + RENEWAL_RETRY_MS;
        return this.#schedule();
      default:
        return unreachable(reply);
    }
  }

  /** Declares the lease lost if its deadline has passed: also when a blocked event loop kept the timer from firing. */
  noticeDeadline(): void {
    this.#context.scheduler.catchUp();
  }

  #lose(reason: LockLostReason): void {
    this.#finish();
    if (this.#hold)
      this.#context.report({ type: 'lost', key: this.name, error: this.#hold.lose(reason) });
    this.#queue.leaseOver(this);
  }

  /** The grant had lapsed before it was confirmed: a new attempt, at the old place. */
  #askAgain(): void {
    this.#forgetTokens();
    this.#finish();
    this.#queue.leaseOver(this, this.#score);
  }

  /** Frees a lease that was perhaps only believed lost, now that the work under it has ended. */
  #giveBackLost(): void {
    const token = this.#token;
    const command = { name: this.name, token, used: this.#used };
    void this.#context.cleanUp.release(command, this.#deadline + this.#leaseMs, () =>
      this.#context.tokens.forget(token),
    );
  }

  // ---- what comes from outside ------------------------------------------------------------------------------

  onMessage(message: InboxMessage): void {
    switch (message.kind) {
      case 'grant': {
        const expected = message.token === this.#token || message.token === this.#pending?.token;
        if ((this.#state === 'asking' || this.#state === 'waiting') && expected) {
          this.#onGranted(message, this.#introductionOf(message.token), message.acceptMs);
        }
        return;
      }
      case 'wanted':
        if (this.#state !== 'over') this.#noteWaiters(1);
        return;
      case 'head':
        if (this.#state !== 'asking' && this.#state !== 'waiting') return;
        this.#recheck.notLaterThan(message.ms);
        if (this.#state === 'waiting' && this.#pending === undefined) this.#schedule();
        return;
      default:
        return unreachable(message);
    }
  }

  /** Messages may have been lost, or the server may be another one: look at once. */
  lookAgain(): void {
    if (this.#state === 'waiting') this.#recheck.soon();
    else if (this.#state === 'held')
      this.#renewAt = Math.min(this.#renewAt, this.#context.clock.now());
    else return;
    if (this.#pending === undefined) this.#schedule();
  }

  onDue(now: number): void {
    switch (this.#state) {
      case 'waiting':
        return this.#sendRecheck();
      case 'confirming':
      case 'held':
        if (this.#state === 'held' && now >= this.#deadline) return this.#lose('expired');
        this.#renewAt = Infinity;
        this.#context.watchdog.collect(this);
        return this.#schedule();
      case 'asking':
      case 'leaving':
      case 'over':
        return;
      default:
        return unreachable(this.#state);
    }
  }

  #schedule(): void {
    this.#context.scheduler.schedule(this, this.#nextDue());
  }

  #nextDue(): number {
    if (this.#state === 'waiting') return this.#recheck.dueAt;
    // While a grant is being confirmed nobody holds it: the store's answer decides, not our deadline.
    return this.#state === 'confirming' ? this.#renewAt : Math.min(this.#deadline, this.#renewAt);
  }

  #finish(): void {
    this.#state = 'over';
    this.#context.scheduler.cancel(this);
  }

  /** The application closes: the holder is told, and the lease is left to run out. */
  abandonHold(): void {
    if (this.#state === 'held') this.#lose('shutdown');
  }
}
