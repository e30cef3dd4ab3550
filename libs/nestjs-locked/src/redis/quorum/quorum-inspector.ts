import { type LockKeyError, LockStoreError } from '../../core/lock.errors.js';
import type { Asked, HolderQuestion } from '../../core/store/holder-question.js';
import type {
  LockInspector,
  LockRecord,
  LockSurvey,
  SurveyedLock,
} from '../../core/store/lock-inspector.js';
import type { Unknown } from '../../core/store/lock-store.js';
import { leasesIn } from '../../core/store/shared-value.js';
import type { Clock } from '../../core/time/clock.js';
import { reasonOf } from '../connection/server/reason-of.js';
import type { QuorumNode } from './quorum-node.js';
import type { QuorumNodes } from './quorum-nodes.js';
import { pollNodes, type QuorumPoll } from './quorum-poll.js';

/** What one node has said. */
interface Told<T> {
  readonly kind: 'told';
  readonly it: T;
}

type Saying<T> = QuorumPoll<QuorumNode, Told<T>>;

/**
 * Who holds what, according to a quorum: a value that enough nodes have. What fewer have is a round that was lost, or
 * is under way, and nobody holds the key by it.
 */
export class QuorumInspector implements LockInspector {
  readonly #nodes: Pick<QuorumNodes, 'all' | 'needed' | 'tooFew'>;
  readonly #clock: Clock;
  readonly #limitMs: number;

  constructor(
    nodes: Pick<QuorumNodes, 'all' | 'needed' | 'tooFew'>,
    clock: Clock,
    limitMs: number,
  ) {
    this.#nodes = nodes;
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  async inspect(key: string, mostWaiting = 0): Promise<LockRecord | undefined> {
    const { needed } = this.#nodes;
    const poll = await this.#ask(
      ({ inspector }) => inspector.inspect(key, mostWaiting),
      (said) => holding(said).length >= needed || isHeldByNobody(said, needed),
      (record) => record === undefined,
    );
    const held = holding(poll);
    if (held.length < needed) {
      if (isHeldByNobody(poll, needed)) return undefined;
      throw this.#unsure(`inspect '${key}'`, poll);
    }
    const ends = held.map(({ remainingMs }) => remainingMs).sort((a, b) => b - a);
    const [first] = held as [LockRecord];
    const longest = held.reduce((a, b) => (b.queue.length > a.queue.length ? b : a));
    return {
      ...first,
      remainingMs: ends[needed - 1] as number,
      waiters: Math.max(...held.map(({ waiters }) => waiters)),
      waitsHere: Math.max(...held.map(({ waitsHere }) => waitsHere)),
      queue: longest.queue,
    };
  }

  async *list(pattern: string): AsyncIterable<string> {
    const listed = async ({ inspector }: QuorumNode): Promise<readonly string[]> => {
      const keys: string[] = [];
      for await (const key of inspector.list(pattern)) keys.push(key);
      return keys;
    };
    const poll = await this.#ask(listed, never, always);
    this.#assertEnough('list locks', poll);
    yield* new Set(poll.answers().flatMap(({ it }) => it));
  }

  async survey(patterns: readonly string[], most: number): Promise<(LockSurvey | LockKeyError)[]> {
    const { needed } = this.#nodes;
    const poll = await this.#ask(
      ({ inspector }) => inspector.survey(patterns, most),
      never,
      always,
    );
    this.#assertEnough('look at the locks', poll);
    return patterns.map((_, i) => {
      const surveys = poll.answers().map(({ it }) => it[i] as LockSurvey | LockKeyError);
      const error = surveys.find((survey) => survey instanceof Error);
      return error ?? merged(surveys as LockSurvey[], needed, most);
    });
  }

  /** @throws LockStoreError if too few nodes answer */
  async ping(): Promise<void> {
    const { needed } = this.#nodes;
    const poll = await this.#ask(
      ({ inspector }) => inspector.ping(),
      ({ answered }) => answered >= needed,
    );
    this.#assertEnough('reach Redis', poll);
  }

  async evictionPolicy(): Promise<string | undefined> {
    const poll = await this.#ask(({ inspector }) => inspector.evictionPolicy());
    this.#assertEnough('ask for the eviction policy', poll);
    return poll.answers().find(({ it }) => it !== undefined)?.it;
  }

  /** Takes the votes of one lease away, so that no later one is taken by mistake. */
  async revoke(
    key: string,
    value?: string,
  ): Promise<Pick<LockRecord, 'value' | 'holders'> | undefined> {
    const { needed } = this.#nodes;
    const record = await this.inspect(key);
    if (record === undefined) return undefined;
    if (value !== undefined && leasesIn(value) !== leasesIn(record.value)) return undefined;
    const poll = await this.#ask(
      ({ inspector }) => inspector.revoke(key, record.value),
      never,
      (revoked) => revoked === undefined,
    );
    const revoked = poll.count(({ it }) => it !== undefined);
    if (revoked >= needed) return record;
    if (poll.answered - revoked > this.#nodes.all.length - needed) return undefined; // it has just ended
    throw this.#unsure(`revoke '${key}'`, poll);
  }

  /** The message need only come from one node that has the holder, and where the holder listens. */
  async ask(key: string, id: string): Promise<readonly Asked[]> {
    const record = await this.inspect(key);
    let unheard: readonly Asked[] = [];
    if (record === undefined) return unheard;
    for (const { inspector, problem } of this.#nodes.all) {
      if (problem !== undefined) continue;
      const asked = await inspector.ask(key, id).catch(() => []);
      const ofHolder = asked.filter(({ token }) => token === record.value);
      if (ofHolder.some(({ isHeard }) => isHeard)) return ofHolder;
      if (ofHolder.length > 0) unheard = ofHolder;
    }
    return unheard;
  }

  async answer(question: HolderQuestion, text: string): Promise<void> {
    await this.#ask(
      ({ inspector }) => inspector.answer(question, text),
      ({ answered }) => answered >= this.#nodes.needed,
    );
  }

  /**
   * @param isDecided whether further answers would change nothing. @default never
   * @param isForgetful whether a node that may have forgotten votes could say this because of it, so that it is no
   * answer. @default never
   */
  #ask<T>(
    ask: (node: QuorumNode) => Promise<T>,
    isDecided: (poll: Saying<T>) => boolean = never,
    isForgetful: (it: T) => boolean = never,
  ): Promise<Saying<T>> {
    return pollNodes<QuorumNode, Told<T>>({
      nodes: this.#nodes.all,
      clock: this.#clock,
      limitMs: this.#limitMs,
      ask: async (node): Promise<Told<T> | Unknown> => {
        // What is known to be away would only delay the others.
        if (node.problem !== undefined) return { kind: 'unknown', cause: node.problem };
        try {
          const it = await ask(node);
          if (node.mayHaveForgotten && isForgetful(it))
            return { kind: 'unknown', cause: FORGETFUL };
          return { kind: 'told', it };
        } catch (error) {
          const cause =
            error instanceof LockStoreError ? error : new LockStoreError(reasonOf(error));
          return { kind: 'unknown', cause };
        }
      },
      isDecided,
    });
  }

  #assertEnough<T>(action: string, poll: Saying<T>): void {
    if (poll.answered < this.#nodes.needed) throw this.#unsure(action, poll);
  }

  #unsure<T>(action: string, poll: Saying<T>): LockStoreError {
    const [first] = poll.unknowns();
    const { needed, all } = this.#nodes;
    const reasons = all.flatMap((node) => {
      const reply = poll.replies.get(node);
      if (reply === undefined) return `${node.address}: no answer within ${this.#limitMs} ms`;
      return reply.kind === 'unknown' ? `${node.address}: ${reply.cause.message}` : [];
    });
    const counted = `${needed} of the ${all.length} nodes of the quorum must agree, and ${poll.answered} have answered`;
    const why = reasons.length === 0 ? '' : `: ${reasons.join('; ')}`;
    return new LockStoreError(`Cannot ${action}: ${counted}${why}`, undefined, {
      cause: first?.cause,
    });
  }
}

const never = (): boolean => false;
const always = (): boolean => true;

const FORGETFUL = new LockStoreError('it has not run for long, and may have forgotten votes');

/** A key that was released, and for a moment only the next in line may take. */
function isFree(value: string): boolean {
  return value.startsWith('turn:');
}

/** The records of the nodes that have what most of them have. */
function holding(poll: Saying<LockRecord | undefined>): readonly LockRecord[] {
  const records = poll.answers().flatMap(({ it }) => it ?? []);
  return mostCommon(records.filter(({ value }) => !isFree(value)));
}

/** Each node names the revocation of a key otherwise. */
function nameOf(value: string | undefined): string | undefined {
  return value?.replace(/^revoked:.*/, 'revoked:');
}

/** The largest group with the same value. */
function mostCommon<T extends { readonly value: string | undefined }>(all: readonly T[]): T[] {
  const groups = all.map(({ value }) =>
    all.filter((other) => nameOf(other.value) === nameOf(value)),
  );
  return groups.reduce<T[]>((a, b) => (b.length > a.length ? b : a), []);
}

/** Whether no value can have enough nodes, whatever those say that have not answered. */
function isHeldByNobody(poll: Saying<LockRecord | undefined>, needed: number): boolean {
  const unsure = poll.pending + poll.unknowns().length;
  return holding(poll).length + unsure < needed;
}

/** What enough of the nodes have in common. One that has stopped looking may have it as well. */
function merged(surveys: readonly LockSurvey[], needed: number, most: number): LockSurvey {
  const locks = new Map<string, SurveyedLock>();
  let isPartial = surveys.some((survey) => survey.isPartial);
  for (const key of new Set(surveys.flatMap((survey) => [...survey.locks.keys()]))) {
    const seen = surveys.flatMap((survey) => survey.locks.get(key) ?? []);
    const unsure = surveys.filter(({ isPartial, locks: has }) => isPartial && !has.has(key));
    const same = mostCommon(seen.filter((lock) => !isFree(lock.value ?? 'turn:')));
    const value = same.length + unsure.length >= needed ? same[0]?.value : undefined;
    const waiters = Math.max(...seen.map((lock) => lock.waiters));
    const waitedMs = Math.max(...seen.map((lock) => lock.waitedMs));
    if (value === undefined && waiters === 0) continue;
    if (locks.size === most) isPartial = true;
    else locks.set(key, { value, waiters, waitedMs });
  }
  return { locks, isPartial };
}
