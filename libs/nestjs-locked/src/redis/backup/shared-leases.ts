import { driftMarginMs } from '../../core/store/lease-timing.js';
import type { BackupRenewal, CoverTerms, LeaseBackup } from '../../core/store/renewal-backup.js';

/** In the word of a lease: the worker thread must not renew it, and an answer under way counts no more. */
export const CLOSED = 0n;

/** In the word of a lease: Redis has told the worker thread that the lease is not ours. */
export const REFUSED = 1n;

/** How many numbers the terms of a lease are. */
export const TERMS = 5;

/** Enough for the key and token of nearly every lease. */
const USUAL_TEXT_BYTES = 512;

const LEASES_PER_SEGMENT = 128;

/**
 * A piece of the memory that both threads share, with room for many leases. Each has
 *
 * - a word, which the worker thread writes only if the main thread has not written it meanwhile: `CLOSED`, `REFUSED`, a
 *   negative number, which is another one whenever the main thread has set other terms, or a positive one: when the
 *   latest renewal that was answered "renewed" was sent, in microseconds on the clock of the main thread
 * - its terms, which the main thread writes while the word is `CLOSED`: `leaseMs`, the margin for clock drift,
 *   `endsAt`, `dueAt` and `until`
 * - the text of its key and of its token, and the length of each in bytes
 */
export interface Segment {
  readonly words: BigInt64Array;
  readonly terms: Float64Array;
  readonly lengths: Int32Array;
  readonly texts: Uint8Array;
  /** The room for the text of one lease. */
  readonly textBytes: number;
}

/** The room for one lease. */
interface Place extends Segment {
  /** Its number within its segment. */
  readonly i: number;
}

function newSegment(textBytes: number): Segment {
  const shared = (bytes: number): SharedArrayBuffer =>
    new SharedArrayBuffer(bytes * LEASES_PER_SEGMENT);
  return {
    words: new BigInt64Array(shared(8)),
    terms: new Float64Array(shared(8 * TERMS)),
    lengths: new Int32Array(shared(4 * 2)),
    texts: new Uint8Array(shared(textBytes)),
    textBytes,
  };
}

/** The memory in which the main thread tells the worker thread of its leases, and is told of their renewals. */
export class SharedLeases {
  readonly segments: Segment[] = [];
  readonly #added: (segment: Segment) => void;
  /** The free places, by the room for their text. */
  readonly #free = new Map<number, Place[]>();
  #openings = 0;

  /** @param added called with each new segment */
  constructor(added: (segment: Segment) => void) {
    this.#added = added;
  }

  of(key: string, token: string): LeaseBackup {
    return new SharedLease(this, key, token);
  }

  /** @returns a number that no word has had yet */
  nextOpening(): bigint {
    return -BigInt(++this.#openings);
  }

  take(bytes: number): Place {
    let textBytes = USUAL_TEXT_BYTES;
    while (textBytes < bytes) textBytes *= 2;
    const free = this.#free.get(textBytes) ?? [];
    this.#free.set(textBytes, free);
    return free.pop() ?? this.#more(textBytes, free);
  }

  give(place: Place): void {
    this.#free.get(place.textBytes)?.push(place);
  }

  #more(textBytes: number, free: Place[]): Place {
    const segment = newSegment(textBytes);
    this.segments.push(segment);
    this.#added(segment);
    for (let i = LEASES_PER_SEGMENT - 1; i > 0; i--) free.push({ ...segment, i });
    return { ...segment, i: 0 };
  }
}

/** One lease in the shared memory, as the main thread sees it. It gets a place there when it is first covered. */
class SharedLease implements LeaseBackup {
  readonly #memory: SharedLeases;
  readonly #key: string;
  readonly #token: string;
  #place: Place | undefined;
  #isOpen = false;
  /** The word as it was last written or read here. */
  #seen = CLOSED;
  #terms: CoverTerms | undefined;

  constructor(memory: SharedLeases, key: string, token: string) {
    this.#memory = memory;
    this.#key = key;
    this.#token = token;
  }

  cover(terms: CoverTerms): void {
    if (this.#isOpen && isSame(terms, this.#terms)) return;
    const place = (this.#place ??= this.#newPlace());
    const { words, i } = place;
    Atomics.store(words, i, CLOSED);
    const { leaseMs, endsAt, dueAt, until } = terms;
    place.terms.set([leaseMs, driftMarginMs(leaseMs), endsAt, dueAt, until], i * TERMS);
    this.#terms = terms;
    this.#seen = this.#memory.nextOpening();
    this.#isOpen = true;
    Atomics.store(words, i, this.#seen);
  }

  #newPlace(): Place {
    const [key, token] = [Buffer.from(this.#key), Buffer.from(this.#token)];
    const place = this.#memory.take(key.length + token.length);
    const { texts, textBytes, lengths, i } = place;
    texts.set(key, i * textBytes);
    texts.set(token, i * textBytes + key.length);
    lengths.set([key.length, token.length], 2 * i);
    return place;
  }

  latest(ends: boolean): BackupRenewal | 'refused' | undefined {
    if (!this.#isOpen) return undefined;
    const { words, i } = this.#place as Place;
    const word = ends
      ? Atomics.compareExchange(words, i, this.#seen, CLOSED)
      : Atomics.load(words, i);
    if (word === this.#seen) {
      this.#isOpen = !ends;
      return undefined;
    }
    this.#seen = word;
    if (word === REFUSED) return 'refused';
    return { sentAt: Number(word) / 1_000, leaseMs: (this.#terms as CoverTerms).leaseMs };
  }

  uncover(): void {
    if (!this.#isOpen) return;
    const { words, i } = this.#place as Place;
    Atomics.store(words, i, CLOSED);
    this.#isOpen = false;
  }

  end(): void {
    this.uncover();
    if (this.#place !== undefined) this.#memory.give(this.#place);
    this.#place = undefined;
  }
}

function isSame(one: CoverTerms, other: CoverTerms | undefined): boolean {
  return one.leaseMs === other?.leaseMs && one.endsAt === other.endsAt && one.until === other.until;
}
