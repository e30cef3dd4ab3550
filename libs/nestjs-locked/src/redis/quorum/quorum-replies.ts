import { LockStoreError } from '../../core/lock.errors.js';
import type { Unknown } from '../../core/store/lock-store.js';
import { entries, list, number, unreadable } from '../scripts/script-replies.js';

/** A node has given its vote, and reserved these numbers with it. */
export interface Vote {
  readonly kind: 'vote';
  readonly first: number;
  readonly last: number;
  /** How many others wait there. */
  readonly waiters: number;
  /** Of an adoption: how long the old token would have had it; 0 if it had it no longer. */
  readonly beforeMs: number;
}

/** Somebody else has the vote of a node. */
export interface NoVote {
  readonly kind: 'no';
  readonly remainingMs: number;
  /** Our rank in line, from 0; -1 if we do not stand in line. */
  readonly rank: number;
  readonly isForeign: boolean;
  /** What has the vote: a token, or what keeps the key from everybody for a while. */
  readonly holder: string;
}

export interface GivenBack {
  readonly kind: 'given-back';
  /** Whether the token had the vote. */
  readonly wasOurs: boolean;
  /** The place of the waiter that was told; '' if none was. */
  readonly next: string;
}

export interface Prolonged {
  readonly kind: 'renewed' | 'again' | 'no';
  readonly waiters: number;
}

/** The number is stored, unless the token has no vote any more. */
export interface Raised {
  readonly kind: 'raised' | 'no';
}

/** Each node names the revocation of a key otherwise. */
function holderIn(value: unknown): string {
  return String(value).replace(/^revoked:.*/, 'revoked:');
}

/** Too young to know whether it has given its vote before. */
function young(address: string, rejoinAfterMs: number): Unknown {
  const reason = `${address} has started less than ${rejoinAfterMs} ms ago and may have forgotten votes, so it gives none yet (rejoinAfterMs)`;
  return { kind: 'unknown', cause: new LockStoreError(reason) };
}

/** Reads the answers of one node. Each method throws if an answer is not one of its script. */
export class QuorumReplies {
  constructor(
    readonly address: string,
    readonly rejoinAfterMs: number,
  ) {}

  vote(reply: unknown): Vote | NoVote | Unknown {
    const [kind, ...rest] = list(reply);
    switch (kind) {
      case 'vote': {
        const [first, last, waiters, beforeMs = 0] = rest.map(number);
        if (first === undefined || last === undefined || waiters === undefined)
          throw unreadable(reply);
        return { kind, first, last, waiters, beforeMs };
      }
      case 'no': {
        const [pttl = 0, rank = -1, isForeign = 0] = rest.slice(0, 3).map(number);
        const remainingMs = pttl === -1 ? Infinity : Math.max(0, pttl);
        return { kind, remainingMs, rank, isForeign: isForeign === 1, holder: holderIn(rest[3]) };
      }
      case 'young':
        return young(this.address, this.rejoinAfterMs);
      default:
        throw unreadable(reply);
    }
  }

  givenBack(reply: unknown, mayHaveRunBefore: boolean): GivenBack {
    const [wasOurs, next] = list(reply);
    if (typeof next !== 'string') throw unreadable(reply);
    // If it has run twice, the second run finds nothing.
    return { kind: 'given-back', wasOurs: number(wasOurs) === 1 || mayHaveRunBefore, next };
  }

  /** @param count how many leases were to be renewed */
  renewed(reply: unknown, count: number): (Prolonged | Unknown)[] {
    return entries(reply, count).map((entry) => {
      const [kind, waiters] = list(entry);
      if (kind === 'renewed' || kind === 'again' || kind === 'no')
        return { kind, waiters: number(waiters) };
      if (kind === 'young') return young(this.address, this.rejoinAfterMs);
      const failed = new LockStoreError(`${this.address}: ${String(kind)}`);
      return { kind: 'unknown', cause: failed };
    });
  }

  raised(reply: unknown): Raised {
    return { kind: number(reply) === 1 ? 'raised' : 'no' };
  }
}
