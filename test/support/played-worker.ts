import {
  CLOSED,
  REFUSED,
  type Segment,
  SharedLeases,
  TERMS,
} from '../../libs/nestjs-locked/src/redis/backup/shared-leases.js';

/** A lease that the worker thread would renew. */
interface CoveredLease {
  readonly key: string;
  readonly token: string;
  readonly leaseMs: number;
  readonly endsAt: number;
  readonly dueAt: number;
  readonly until: number;
  /** Answers "renewed" to a renewal that was sent then, unless the main thread has written to the lease since. */
  renewed(sentAt: number): void;
  /** Answers "not yours". */
  refused(): void;
}

/** Plays the worker thread on the memory that it would share, at any time: also while the other thread is blocked. */
export class PlayedWorker {
  readonly memory: SharedLeases;
  readonly #segments: Segment[] = [];

  constructor() {
    this.memory = new SharedLeases((segment) => this.#segments.push(segment));
  }

  /** The leases that it may renew now. */
  covered(): CoveredLease[] {
    return this.#segments.flatMap((segment) =>
      [...segment.words.keys()].flatMap((i) => this.#leaseOf(segment, i) ?? []),
    );
  }

  /** The only lease that it may renew now. */
  only(): CoveredLease {
    const [lease, ...others] = this.covered();
    if (lease === undefined || others.length > 0)
      throw new Error(`${others.length + (lease ? 1 : 0)} leases are covered`);
    return lease;
  }

  #leaseOf({ words, terms, lengths, texts, textBytes }: Segment, i: number) {
    const word = Atomics.load(words, i);
    if (word === CLOSED || word === REFUSED) return undefined;
    const [leaseMs, , endsAt, dueAt, until] = terms.subarray(i * TERMS) as unknown as number[];
    const text = Buffer.from(texts.slice(i * textBytes, (i + 1) * textBytes));
    const middle = lengths[2 * i] as number;
    const answer = (news: bigint): void => void Atomics.compareExchange(words, i, word, news);
    return {
      key: text.toString('utf8', 0, middle),
      token: text.toString('utf8', middle, middle + (lengths[2 * i + 1] as number)),
      leaseMs,
      endsAt,
      dueAt,
      until,
      renewed: (sentAt) => answer(BigInt(sentAt * 1_000)),
      refused: () => answer(REFUSED),
    } as CoveredLease;
  }
}
