import type {
  AcquireReply,
  Granted,
  LeaveReply,
  Queued,
  ReleaseReply,
  RenewReply,
  RequeueReply,
  Unknown,
} from '../core/lock-store.js';

/** The scripts' replies as unions. Numbers above 2^31 travel as text; some clients give every number as text. */

export function readAcquireReply(reply: unknown): Exclude<AcquireReply, Unknown> {
  const [kind, ...rest] = list(reply);
  return kind === 'busy' ? { kind, remainingMs: remaining(rest[0]) } : readRequeueReply(reply);
}

export function readRequeueReply(reply: unknown): Exclude<RequeueReply, Unknown> {
  const [kind, ...rest] = list(reply);
  switch (kind) {
    case 'granted':
      return granted(rest);
    case 'queued':
      return queued(rest);
    default:
      throw unreadable(reply);
  }
}

export function readLeaveReply(reply: unknown): Exclude<LeaveReply, Unknown> {
  const [kind, ...rest] = list(reply);
  switch (kind) {
    case 'granted':
      return granted(rest);
    case 'left':
      return { kind };
    default:
      throw unreadable(reply);
  }
}

export function readReleaseReply(reply: unknown): Exclude<ReleaseReply, Unknown> {
  const [kind] = list(reply);
  if (kind === 'released' || kind === 'lost') return { kind };
  throw unreadable(reply);
}

export function readRenewReply(reply: unknown): RenewReply[] {
  return list(reply).map((entry) => {
    const [blockEnd, waiters] = list(entry);
    return blockEnd === undefined
      ? { kind: 'lost' }
      : { kind: 'renewed', blockEnd: number(blockEnd), waiters: number(waiters) };
  });
}

function granted([token, fence, blockEnd, waiters]: unknown[]): Granted {
  return {
    kind: 'granted',
    token: String(token),
    fence: number(fence),
    blockEnd: number(blockEnd),
    waiters: number(waiters),
  };
}

function queued([token, score, pttl, foreign]: unknown[]): Queued {
  return {
    kind: 'queued',
    token: String(token),
    score: number(score),
    remainingMs: remaining(pttl),
    foreign: number(foreign) === 1,
  };
}

/** PTTL: -1 = no end, -2 = gone meanwhile. */
function remaining(pttl: unknown): number {
  const ms = number(pttl);
  return ms === -1 ? Infinity : Math.max(0, ms);
}

function list(reply: unknown): unknown[] {
  if (Array.isArray(reply)) return reply;
  throw unreadable(reply);
}

function number(value: unknown): number {
  const result = Number(value);
  if (value === null || value === undefined || Number.isNaN(result)) throw unreadable(value);
  return result;
}

function unreadable(reply: unknown): Error {
  return new Error(`unexpected reply ${JSON.stringify(reply)}`);
}
