import type { KeyTerms } from '../lock-mode.js';
import { unreachable } from '../runtime/unreachable.js';
import { SILENT_MS } from '../store/lease-timing.js';
import type {
  AcquireReply,
  Granted,
  InboxMessage,
  LeaveReply,
  Queued,
  RecheckReply,
  Unknown,
} from '../store/lock-store.js';
import type { TokenOwner } from '../store/token-registry.js';
import type { Scheduled } from '../time/scheduler.js';
import type { EngineParts } from './engine-parts.js';
import type { CameBy } from './lease-grant.js';
import { RecheckTimer } from './recheck-timer.js';
import type { Acquires, RequestUser } from './request-user.js';

/**
 * asking   the first command is in flight
 * waiting  in the store's queue; a grant or the re-check timer wakes it
 * leaving  the last try, at the end of the wait, is in flight
 * done     granted, refused or given up; final
 */
type State = 'asking' | 'waiting' | 'leaving' | 'done';

/** A token, and when its introducing command was first sent. */
interface Introduced {
  readonly token: string;
  readonly at: number;
}

/**
 * One attempt of this process to get the lease of a key: it sends a request, waits in the store's queue, and re-checks
 * from time to time. It ends with or without a grant.
 *
 * Every command that could be granted introduces a new token, so that a late or repeated grant is never mistaken for a
 * new one. The time of the grant is unknown here, so the lease counts from the introduction of its token, which came
 * before the grant.
 *
 * While a re-check is in flight, two tokens can be granted: the waiting one (`#asked`) and its replacement
 * (`#pending`). A grant may arrive as a message before the reply that carries it, so each reply is checked for that
 * first.
 */
export class LeaseRequest implements Scheduled, TokenOwner {
  scheduled: Scheduled['scheduled'];
  /** How long a lease lasts that the next call has got and renewed, in milliseconds. */
  readonly leaseMs: number;
  /** The length to request, which may be shorter. */
  readonly firstMs: number;
  /** How the key is requested. */
  readonly terms: KeyTerms;
  readonly #parts: EngineParts;
  readonly #key: string;
  readonly #user: RequestUser;
  readonly #recheck: RecheckTimer;
  #state: State = 'asking';
  #asked: Introduced;
  /** The token of a re-check in flight; it replaces `#asked` when the store says so. */
  #pending: Introduced | undefined;
  /** Our position in the store's queue. */
  #position: number | undefined;
  /**
   * The first in the queue while others have the key that share it, and since when it has been there, as far as is
   * known.
   */
  #head: { readonly token: string; readonly since: number } | undefined;
  /** Whether a notice that another process wants the key overtook our grant. */
  #wanted = false;
  /** The token from which an operator has taken the key, if that notice overtook the reply with the grant. */
  #revoked: string | undefined;

  constructor(parts: EngineParts, key: string, user: RequestUser) {
    this.#parts = parts;
    this.#key = key;
    this.#user = user;
    this.leaseMs = user.leaseMs;
    this.firstMs = user.firstMs;
    this.terms = user.terms;
    this.#recheck = new RecheckTimer(parts, key);
    // The token is registered before its command is sent, because a grant may overtake the reply.
    this.#asked = this.#introduce();
  }

  get state(): State {
    return this.#state;
  }

  /**
   * Sends the first command.
   * @param nowait try once, without joining or overtaking the store's queue
   * @param position the position in the store's queue to claim
   */
  ask(store: Acquires, nowait: boolean, position: number | undefined): Promise<void> {
    this.#position = position;
    const command = { key: this.#key, token: this.token, leaseMs: this.firstMs, nowait };
    return store
      .acquire(position === undefined ? command : { ...command, position })
      .then((reply) => this.onFirstReply(reply));
  }

  /** The waiting token; at first, that of the first command. */
  get token(): string {
    return this.#asked.token;
  }

  #introduce(): Introduced {
    const { tokens, store, clock } = this.#parts;
    const looksItself = !store.listensFor(this.#key);
    const label = store.keepsLabels === false ? undefined : this.#user.label;
    return { token: tokens.introduce(this, looksItself, label, this.terms), at: clock.now() };
  }

  onFirstReply(reply: AcquireReply): void {
    this.#parts.scheduler.catchUp();
    if (this.#state !== 'asking') return; // its grant overtook the reply
    switch (reply.kind) {
      case 'granted':
        return this.#granted(reply, this.firstMs, 'answer');
      case 'queued':
        return this.#queued(reply);
      case 'busy':
        this.#end(this.#asked);
        return this.#user.notAcquired(this);
      case 'unknown':
        if (reply.neverRan !== true) return this.#abandon(reply);
        this.#end(this.#asked);
        return this.#user.storeFailed(this, reply, this.#position);
      default:
        return unreachable(reply);
    }
  }

  #queued(reply: Queued): void {
    this.#state = 'waiting';
    this.#position = reply.position;
    this.#noteHead(reply.head);
    this.#recheck.queued(reply);
    if (reply.permits !== undefined) this.#user.permitsDiffer(reply.permits);
    this.#user.mustWait();
    if (this.#user.isEmpty) this.leave();
    else this.#rearm();
  }

  // ---- looking again ----------------------------------------------------------------------------------------

  /** A waiter has a new token after each of its re-checks, so the same one for long belongs to one that has stopped. */
  #noteHead(token: string | undefined): void {
    if (token === this.#head?.token) return;
    const since = this.#parts.clock.now();
    this.#head = token === undefined ? undefined : { token, since };
  }

  get #silentHead(): string | undefined {
    const head = this.#head;
    const isSilent = head !== undefined && this.#parts.clock.now() - head.since >= SILENT_MS;
    return isSilent ? head.token : undefined;
  }

  onDue(): void {
    if (this.#state !== 'waiting') return;
    const pending = this.#introduce();
    this.#pending = pending;
    this.#recheck.sent();
    const { token: newToken } = pending;
    const silent = this.#silentHead;
    const command = {
      key: this.#key,
      token: this.token,
      newToken,
      leaseMs: this.firstMs,
      position: this.#position ?? 0,
    };
    void this.#parts.store
      .recheck(silent === undefined ? command : { ...command, silent })
      .then((reply) => this.#onRecheckReply(pending, reply));
  }

  #onRecheckReply(sent: Introduced, reply: RecheckReply): void {
    this.#parts.scheduler.catchUp();
    if (this.#asked === sent) return; // its grant overtook the reply
    if (this.#state === 'done') {
      // Meanwhile, the old token was granted or the wait given up. The remains of the re-check must be removed.
      if (reply.kind === 'granted' && reply.token !== sent.token) {
        this.#parts.tokens.forget(sent.token);
      } else {
        this.#takeBack([sent.token]);
      }
      return;
    }
    if (this.#state === 'leaving') return; // the last try was sent later and covers both tokens
    switch (reply.kind) {
      case 'granted':
        this.#forgetPendingUnless(reply.token);
        return this.#granted(
          reply,
          this.firstMs,
          reply.token === sent.token ? 'answer' : 'later-answer',
        );
      case 'queued':
        this.#parts.tokens.forget(this.#asked.token);
        this.#asked = sent;
        this.#pending = undefined;
        return this.#queued(reply);
      case 'unknown':
        return reply.neverRan === true ? this.#stayQueued(reply) : this.#abandon(reply);
      default:
        return unreachable(reply);
    }
  }

  /** Called when the re-check was not executed: the request keeps its position in the queue. */
  #stayQueued({ cause }: Unknown): void {
    this.#forgetPendingUnless(this.#asked.token);
    this.#user.storeFails(cause);
    this.#recheck.failed();
    this.#rearm();
  }

  /** Forgets the token of a re-check, which the store does not use, unless it is the granted one. */
  #forgetPendingUnless(granted: string): void {
    if (this.#pending === undefined || this.#pending.token === granted) return;
    this.#parts.tokens.forget(this.#pending.token);
    this.#pending = undefined;
  }

  /** Called when messages may have been lost: re-checks at once. */
  lookAgain(): void {
    this.#recheck.soon();
    this.#rearm();
  }

  #rearm(): void {
    if (this.#state === 'waiting' && this.#pending === undefined) {
      this.#parts.scheduler.schedule(this, this.#recheck.dueAt);
    }
  }

  onMessage(message: InboxMessage): void {
    switch (message.kind) {
      case 'grant':
        if (this.#state === 'asking' || this.#state === 'waiting') {
          this.#granted(message, message.acceptMs, 'message');
        } else {
          this.#returnUnused(message.token);
        }
        return;
      case 'wanted':
        this.#wanted = true;
        return this.#returnUnused(message.token);
      case 'head':
        this.#recheck.notLaterThan(message.ms);
        return this.#rearm();
      case 'revoked':
        this.#revoked = message.token;
        return this.lookAgain();
      default:
        return unreachable(message);
    }
  }

  // ---- the end ----------------------------------------------------------------------------------------------

  /** @param lengthMs how long the store keeps the lease after the grant */
  #granted(grant: Omit<Granted, 'kind'>, lengthMs: number, cameBy: CameBy): void {
    if (grant.token === this.#pending?.token) {
      this.#parts.tokens.forget(this.#asked.token);
      this.#asked = this.#pending;
    }
    if (grant.token === this.#revoked) {
      this.#end(this.#asked);
      return this.#user.over(this, this.#position); // taken away before it arrived: requested again from the same position
    }
    this.#state = 'done';
    this.#parts.scheduler.cancel(this);
    const { token, fence, blockEnd, slot = 0 } = grant; // not a spread, which would cost as much as the rest of this method
    this.#user.granted(this, {
      token,
      fence,
      blockEnd,
      slot,
      waiters: grant.waiters + (this.#wanted ? 1 : 0),
      introducedAt: this.#asked.at,
      lengthMs,
      cameBy,
      leaseMs: this.leaseMs,
      position: this.#position,
    });
  }

  /** Makes the final try when the wait of the last call here is over. */
  tryOnceMore(): void {
    this.#state = 'leaving';
    this.#parts.scheduler.cancel(this);
    void this.#parts.store
      .leave({ key: this.#key, tokens: this.#tokens(), leaseMs: this.firstMs })
      .then((reply) => this.#onLastReply(reply));
  }

  #onLastReply(reply: LeaveReply): void {
    this.#parts.scheduler.catchUp();
    switch (reply.kind) {
      case 'granted':
        this.#forgetPendingUnless(reply.token);
        return this.#granted(reply, this.firstMs, 'later-answer');
      case 'left':
        this.#end(this.#asked, this.#pending);
        return this.#user.notAcquired(this);
      case 'unknown':
        return this.#abandon(reply);
      default:
        return unreachable(reply);
    }
  }

  /**
   * Leaves the queue when no call here waits any more. If a grant crosses this command, the store hands the key to the
   * next waiter.
   */
  leave(): void {
    if (this.#state !== 'waiting') return; // the reply in flight will find no call, and a grant is released
    this.#takeBack(this.#tokens());
    this.#end();
    this.#user.over(this);
  }

  /** Called when the store did not answer: takes back the lease or the position in the queue that we may have. */
  #abandon(unknown: Unknown): void {
    this.#takeBack(this.#tokens());
    this.#end();
    this.#user.storeFailed(this, unknown, this.#position);
  }

  #tokens(): readonly [string, string?] {
    const { token } = this.#asked;
    return this.#pending === undefined ? [token] : [token, this.#pending.token];
  }

  /**
   * Only a lease expires. A position in the queue does not, and a command that the store has not read yet may be
   * executed when the store is back, however late.
   */
  #takeBack(tokens: readonly [string, string?]): void {
    const isAnswered = this.#state === 'asking' && !this.#parts.outages.concern([this.#key]);
    const until = isAnswered ? this.#asked.at + this.leaseMs : Infinity;
    this.#parts.cleanUp.leave(this.#key, tokens, until, () => {
      for (const token of tokens) if (token !== undefined) this.#parts.tokens.forget(token);
    });
  }

  /** Returns a key granted to an abandoned token, so that others need not wait for the end of its lease. */
  #returnUnused(token: string): void {
    if (this.#state !== 'done') return; // the last try in flight covers both tokens
    const until = this.#parts.clock.now() + this.leaseMs;
    const { cleanUp, tokens } = this.#parts;
    cleanUp.returnAtOnce(this.#key, token, until, () => tokens.forget(token));
  }

  #end(...forgotten: (Introduced | undefined)[]): void {
    this.#state = 'done';
    this.#parts.scheduler.cancel(this);
    for (const introduced of forgotten) {
      if (introduced !== undefined) this.#parts.tokens.forget(introduced.token);
    }
  }
}
