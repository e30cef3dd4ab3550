import { collectedWaits } from '../deadlocks/collected-waits.js';
import type { AskedHolder, HolderQuestions } from '../deadlocks/holder-questions.js';
import { assertKeyPattern, assertLockKey, keyProblem } from '../keys/lock-key.js';
import type { EngineParts } from '../lease/engine-parts.js';
import { LockKeyError } from '../lock.errors.js';
import type { LockHealth } from '../lock-health.js';
import type { LockInfo, LockWait } from '../lock-info.js';
import type { LockOverview } from '../lock-overview.js';
import { processIdOf } from '../store/lease-token.js';
import { holderOf, type LockInspector, type LockRecord } from '../store/lock-inspector.js';
import { leaseIdOf, tokensIn } from '../store/shared-value.js';
import { atMost } from '../time/at-most.js';
import type { EngineInbox } from './engine-inbox.js';
import type { EngineLifetime } from './engine-lifetime.js';
import { type LocalView, MOST_WAITING } from './local-view.js';
import { surveyLocks } from './lock-survey.js';

/** How long a key must have been wanted before an overview asks its holder: nearly all waits are over sooner. */
const ASKED_AFTER_MS = 500;

/** How long `inspect` waits for the holder's process, which may be blocked or dead. */
const TOLD_WITHIN_MS = 500;

/** How many holders an overview asks. */
const MOST_ASKED = 32;

/** The operations of a lock service for operators: to check the store, to show the holders, and to end a hold. */
export class LockOperations {
  readonly #parts: EngineParts;
  readonly #lifetime: EngineLifetime;
  readonly #inbox: EngineInbox;
  readonly #local: LocalView;
  readonly #questions: HolderQuestions;

  constructor(
    parts: EngineParts,
    lifetime: EngineLifetime,
    inbox: EngineInbox,
    local: LocalView,
    questions: HolderQuestions,
  ) {
    this.#parts = parts;
    this.#lifetime = lifetime;
    this.#inbox = inbox;
    this.#local = local;
    this.#questions = questions;
  }

  /**
   * Measures how long the store takes to answer, in milliseconds. Fails without a query if the store is known to be
   * away, or missing messages were reported.
   * @throws LockStoreError
   */
  ping(): Promise<number> {
    const { outages, silences, refusals, clock } = this.#parts;
    return this.#ask(async () => {
      outages.assertNone();
      await this.#opened();
      const askedAt = clock.now();
      await this.#inspector.ping();
      refusals.assertNoneReported(); // first, because messages may be missing for lack of rights
      silences.assertNoneReported();
      return clock.now() - askedAt;
    });
  }

  /** `ping`, and what may cost locks although the store answers. @throws LockStoreError */
  async health(): Promise<LockHealth> {
    const pingMs = await this.ping();
    const evictionPolicy = await this.#ask(() => this.#inspector.evictionPolicy());
    const { nodesAway } = this.#inbox;
    return { pingMs, evictionPolicy, nodesAway, renewals: this.#parts.warnings.recent() };
  }

  /** @returns null if nobody holds it @throws LockStoreError */
  async inspect(key: string): Promise<LockInfo | null> {
    assertLockKey(key);
    return this.#ask(async () => {
      const record = await this.#recordOf(key);
      return record === undefined ? null : this.#local.infoOf(record, await this.#toldOf(record));
    });
  }

  async #recordOf(key: string): Promise<LockRecord | undefined> {
    this.#parts.outages.assertMayAsk(key);
    await this.#opened();
    return this.#inspector.inspect(key, MOST_WAITING);
  }

  /** Asks another process which of its calls has the key. @returns undefined if it does not answer soon */
  async #toldOf({ key, value }: LockRecord): Promise<AskedHolder | undefined> {
    const { tokens, clock } = this.#parts;
    if (processIdOf(value) === undefined || tokens.isOwn(value)) return undefined;
    const asked = this.#questions.ask(key).catch(() => []); // what the store has said stands
    return (await atMost(clock, TOLD_WITHIN_MS, asked))?.[0];
  }

  /** The held locks, in no particular order. @throws LockKeyError if no key can match the pattern · LockStoreError */
  async *list(pattern: string): AsyncIterable<LockInfo> {
    try {
      assertKeyPattern(pattern);
      this.#parts.outages.assertMayAsk();
      await this.#opened();
      for await (const key of this.#inspector.list(pattern)) {
        if (keyProblem(key) !== undefined) continue; // of another kind of client; our calls cannot name it
        const record = await this.#recordOf(key);
        if (record !== undefined) yield this.#local.infoOf(record);
      }
    } finally {
      await this.#parts.loopTurn.pause();
    }
  }

  /**
   * For each pattern, all locks at one moment, of which at most so many are named, or why it can match no key.
   * @throws LockKeyError · LockStoreError
   */
  async overviews(
    patterns: readonly string[],
    most: number,
  ): Promise<(LockOverview | LockKeyError)[]> {
    return this.#ask(async () => {
      patterns.forEach(assertKeyPattern);
      this.#parts.outages.assertMayAsk();
      await this.#opened();
      const seen = await surveyLocks(this.#inspector, this.#local, patterns, most);
      return seen.map((it) => (it instanceof LockKeyError ? it : this.#withQuestion(it)));
    });
  }

  #withQuestion(seen: Omit<LockOverview, 'ask'>): LockOverview {
    const wanted = seen.locks.filter(({ oldestWaitMs }) => oldestWaitMs >= ASKED_AFTER_MS);
    const asked = wanted.slice(0, MOST_ASKED);
    return { ...seen, ask: () => collectedWaits(this.#questions, asked) };
  }

  /**
   * What the calls wait for that hold a key which others want, of all processes that answer within a second.
   * @throws LockKeyError · LockStoreError
   */
  async waits(pattern: string): Promise<readonly LockWait[]> {
    return (await collectedWaits(this.#questions, this.list(pattern))).waits;
  }

  /**
   * Takes the key from its holder, or from all readers, with `revokeScript`, and notifies their leases, which abort the
   * signals. Each process logs it.
   * @param leaseId only if it is held by this lease
   * @returns whether somebody held it @throws LockStoreError
   */
  async forceRelease(key: string, leaseId?: string): Promise<boolean> {
    assertLockKey(key);
    const { report, tokens } = this.#parts;
    const here = this.#local.holderOf(key); // the notice of its loss may come before the answer
    const revoked = await this.#ask(async () => {
      this.#parts.outages.assertMayAsk(key);
      await this.#opened();
      if (leaseId === undefined) return this.#inspector.revoke(key);
      const seen = await this.#inspector.inspect(key);
      if (seen === undefined || leaseIdOf(seen.value) !== leaseId) return undefined;
      return this.#inspector.revoke(key, seen.value);
    });
    if (revoked === undefined) return false;
    const held = tokensIn(revoked.value);
    const isOurs = here !== undefined && tokens.isOwn(held[0] ?? '');
    report({ type: 'force-released', key, holder: isOurs ? here : holderOf(revoked) });
    // Notifies holders in this process at once, because the store's message may come later than this result.
    for (const token of held) this.#inbox.message({ kind: 'revoked', key, token });
    return true;
  }

  async #ask<T>(question: () => Promise<T>): Promise<T> {
    try {
      return await question();
    } finally {
      await this.#parts.loopTurn.pause();
    }
  }

  async #opened(): Promise<void> {
    if (!this.#lifetime.isOpen) await this.#lifetime.open();
  }

  get #inspector(): LockInspector {
    return this.#parts.store.inspector;
  }
}
