import type { Asked, Entry, Held, Inspected } from '../history/entry.js';

/** Everything that the history says about one call. */
export interface Call extends Omit<Asked, 'kind' | 'at' | 'call'> {
  readonly id: string;
  readonly askedAt: number;
  held?: Held;
  /** The last local deadline that its process knew. */
  validUntil: number;
  /** The longest time that `ensureRemaining` asked for. */
  ensuredMs: number;
  lost?: { readonly at: number; readonly key: string; readonly reason: string };
  endedAt?: number;
  released?: { readonly at: number; readonly answer: boolean | 'unknown' | 'unsaid' };
  refused?: { readonly at: number; readonly code: string; readonly message: string };
  abortedAt?: number;
  /** Its process ended before the call did. */
  killedAt?: number;
  readonly inspected: Inspected[];
}

/** A call for several keys may already hold some of them, unseen, while it waits for the others. */
export function isSeveral({ keys }: Pick<Asked, 'keys'>): boolean {
  return new Set(keys).size > 1;
}

/** When the call was told that it holds its keys or does not get them. */
export function settledAt(call: Call): number | undefined {
  return call.held?.at ?? call.refused?.at;
}

/** Until when the call or its hold matters. */
export function overAt(call: Call): number {
  return call.released?.at ?? call.refused?.at ?? call.killedAt ?? Infinity;
}

/** Until when the call could believe that it held its keys. */
export function believedUntil(call: Call): number {
  return Math.min(
    call.validUntil,
    call.lost?.at ?? Infinity,
    call.endedAt ?? Infinity,
    call.killedAt ?? Infinity,
  );
}

/** How long the store may keep the lease after it was last prolonged. */
export function leaseLengthMs({ leaseMs, ensuredMs }: Call): number {
  return Math.max(leaseMs, ensuredMs * 1.02 + 100);
}

/** Collects the calls from a history that is in the order of time. */
export function readCalls(history: readonly Entry[]): ReadonlyMap<string, Call> {
  const calls = new Map<string, Call>();
  for (const entry of history) {
    if (entry.kind === 'asked') {
      const { at: askedAt, call: id } = entry;
      const validUntil = -Infinity;
      calls.set(id, { ...entry, id, askedAt, validUntil, ensuredMs: 0, inspected: [] });
    } else if (entry.kind === 'killed' || entry.kind === 'exited') {
      for (const call of calls.values()) {
        if (call.process === entry.process && overAt(call) === Infinity) call.killedAt = entry.at;
      }
    } else if ('call' in entry) {
      const call = calls.get(entry.call);
      if (call !== undefined) note(call, entry);
    }
  }
  return calls;
}

function note(call: Call, entry: Entry): void {
  switch (entry.kind) {
    case 'held':
      call.held = entry;
      return;
    case 'valid':
      call.validUntil = Math.max(call.validUntil, entry.until);
      return;
    case 'ensured':
      call.ensuredMs = Math.max(call.ensuredMs, entry.ms);
      return;
    case 'lost':
      call.lost ??= entry;
      return;
    case 'ended':
      call.endedAt = entry.at;
      return;
    case 'released':
      call.released = entry;
      return;
    case 'refused':
      call.refused = entry;
      return;
    case 'aborted':
      call.abortedAt = entry.at;
      return;
    case 'inspected':
      call.inspected.push(entry);
      return;
    case 'asked':
    case 'wrong':
    case 'stalled':
    case 'killed':
    case 'exited':
    case 'closing':
    case 'closed':
    case 'foreign':
    case 'fault':
      return; // not about one call
  }
}
