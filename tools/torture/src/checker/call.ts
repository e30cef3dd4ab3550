import type { CallEvents, Entry } from '../history/entry.js';

/** Everything that the history says about one call. */
export interface Call extends Omit<Entry<'asked'>, 'kind' | 'at' | 'call'>, Course {
  readonly id: string;
  readonly askedAt: number;
  /** The last local deadline that its process knew. */
  validUntil: number;
  /** When it last acted, and believed that it holds its keys. */
  actedAt: number;
  /** The longest time that `ensureRemaining` asked for. */
  ensuredMs: number;
  /** Its process ended before the call did. */
  killedAt?: number;
  readonly inspections: Entry<'inspected'>[];
}

/** A permit of a key. */
export interface Permit {
  /** How many there are. */
  readonly most: number;
  readonly weight: number;
  readonly slot: number;
}

type OnceInACourse =
  'held' | 'detaches' | 'detached' | 'lost' | 'ended' | 'released' | 'refused' | 'aborted';

/** How a call went on. */
type Course = {
  [Kind in OnceInACourse]?: Entry<Kind>;
};

/** A call for several keys may already hold some of them, unseen, while it waits for the others. */
export function isSeveral({ keys }: Pick<Call, 'keys'>): boolean {
  return new Set(keys).size > 1;
}

/** The call inside which it was made. */
export function around({ parent }: Call, calls: ReadonlyMap<string, Call>): Call | undefined {
  return parent === undefined ? undefined : calls.get(parent);
}

export function readsKey({ reads }: Pick<Call, 'reads'>, key: string): boolean {
  return reads?.includes(key) === true;
}

/** The permit that the call has of the key; undefined if it has the key otherwise. */
export function permitOf({ permits, weight = 1, held }: Call, key: string): Permit | undefined {
  const slot = held?.slots?.[key];
  const most = permits?.[key];
  return slot === undefined || most === undefined ? undefined : { most, weight, slot };
}

/** When the call was told that it holds its keys or does not get them. */
export function settledAt(call: Call): number | undefined {
  return call.held?.at ?? call.refused?.at;
}

/** When the call stopped waiting for its keys, if it has. */
export function waitedUntil(call: Call): number {
  return settledAt(call) ?? call.killedAt ?? Infinity;
}

/** Until when the call or its hold matters. */
export function overAt(call: Call): number {
  return call.released?.at ?? call.refused?.at ?? call.killedAt ?? Infinity;
}

/** Until when the call could believe that it held its keys, and in any case until it last did. */
export function believedUntil(call: Call): number {
  const { validUntil, actedAt, lost, detached, ended, killedAt = Infinity } = call;
  const ends = [lost, detached, ended].map((end) => end?.at ?? Infinity);
  const overAt = Math.min(killedAt, ...ends);
  return Math.max(actedAt, Math.min(validUntil, overAt));
}

/** How long the store may keep the lease after it was last prolonged. */
export function leaseLengthMs({ leaseMs, ensuredMs, detaches }: Call): number {
  return Math.max(leaseMs, Math.max(ensuredMs, detaches?.ms ?? 0) * 1.02 + 100);
}

/** Collects the calls from a history that is in the order of time. */
export function readCalls(history: readonly Entry[]): ReadonlyMap<string, Call> {
  const calls = new Map<string, Call>();
  for (const entry of history) {
    if (entry.kind === 'asked') {
      const { at: askedAt, call: id } = entry;
      const known = { validUntil: -Infinity, actedAt: -Infinity, ensuredMs: 0, inspections: [] };
      calls.set(id, { ...entry, ...known, id, askedAt });
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

function note(call: Call, entry: Entry<keyof CallEvents>): void {
  if (entry.kind === 'valid') call.validUntil = Math.max(call.validUntil, entry.until);
  else if (entry.kind === 'ensured') call.ensuredMs = Math.max(call.ensuredMs, entry.ms);
  else if (entry.kind === 'acted') call.actedAt = entry.at;
  else if (entry.kind === 'inspected') call.inspections.push(entry);
  else if (entry.kind !== 'lost' || call.lost === undefined) {
    Object.assign(call, { [entry.kind]: entry } satisfies Course);
  }
}
