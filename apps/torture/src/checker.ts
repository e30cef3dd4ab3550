import type { Entry } from './history.js';

interface Hold {
  readonly call: string;
  readonly key: string;
  readonly token: number;
  readonly from: number;
  /** The last local deadline that the process knew of. */
  validUntil: number;
  /** Until when the process could believe that it held the key. */
  until: number;
}

export interface Verdict {
  readonly violations: readonly string[];
  readonly attempts: number;
  readonly holds: number;
  readonly lost: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly longestWaitMs: number;
}

export interface CheckOptions {
  /** A call that waited longer without a Redis failure has starved. */
  readonly longestWaitMs: number;
}

/**
 * Reads a history and says what in it no lock may do: two holds of a key at the same time (as far as their local
 * deadlines reached), tokens that do not rise in the order of the holds, calls that starved.
 */
export function check(history: readonly Entry[], { longestWaitMs }: CheckOptions): Verdict {
  const asked = new Map<string, Extract<Entry, { kind: 'asked' }>>();
  const holds = new Map<string, Hold>();
  const wipes: { from: number; until: number }[] = [];
  const refused: Record<string, number> = {};
  const violations: string[] = [];
  let longest = 0;
  let lost = 0;

  const answered = (call: string, at: number): void => {
    const ask = asked.get(call);
    if (ask === undefined) return;
    longest = Math.max(longest, at - ask.at);
    asked.delete(call);
  };

  for (const entry of [...history].sort((a, b) => a.at - b.at)) {
    switch (entry.kind) {
      case 'asked':
        asked.set(entry.call, entry);
        break;
      case 'held':
        answered(entry.call, entry.at);
        holds.set(entry.call, { ...entry, from: entry.at, validUntil: entry.at, until: Infinity });
        break;
      case 'valid': {
        const hold = holds.get(entry.call);
        if (hold !== undefined) hold.validUntil = Math.max(hold.validUntil, entry.until);
        break;
      }
      case 'ended': {
        const hold = holds.get(entry.call);
        if (hold === undefined) break;
        hold.until = Math.min(entry.at, hold.validUntil);
        if (entry.lost !== undefined) lost++;
        break;
      }
      case 'refused':
        refused[entry.code] = (refused[entry.code] ?? 0) + 1;
        if (entry.code === 'LOCK_NOT_ACQUIRED') {
          violations.push(`${entry.call} starved: refused as busy after its whole wait`);
        }
        answered(entry.call, entry.at);
        break;
      case 'killed':
        for (const hold of holds.values()) {
          if (hold.call.startsWith(`${entry.process}/`))
            hold.until = Math.min(hold.until, entry.at, hold.validUntil);
        }
        for (const call of asked.keys())
          if (call.startsWith(`${entry.process}/`)) asked.delete(call);
        break;
      case 'wiped':
        wipes.push({ from: entry.at, until: entry.until });
        break;
    }
  }

  if (longest > longestWaitMs) {
    violations.push(`a call waited ${Math.round(longest)} ms, more than ${longestWaitMs}`);
  }
  for (const call of asked.keys()) violations.push(`${call} was never answered`);
  for (const hold of holds.values()) {
    if (hold.until === Infinity) violations.push(`${hold.call} never ended its hold`);
  }
  violations.push(...orderViolations([...holds.values()], wipes));
  return {
    violations,
    attempts: history.filter(({ kind }) => kind === 'asked').length,
    holds: holds.size,
    lost,
    refused,
    longestWaitMs: Math.round(longest),
  };
}

function orderViolations(
  holds: Hold[],
  wipes: readonly { from: number; until: number }[],
): string[] {
  const violations: string[] = [];
  const before = new Map<string, Hold>();
  const last = new Map<string, Hold>();
  // A process that was paused between its grant and this note had no valid hold any more.
  const valid = holds.filter(({ from, until }) => until > from);
  for (const hold of valid.sort((a, b) => a.from - b.from)) {
    const longest = before.get(hold.key);
    const excused = wipes.some(({ from, until }) => hold.from >= from && hold.from <= until);
    if (longest !== undefined && longest.until > hold.from && !excused) {
      violations.push(
        `two holders of ${hold.key}: ${longest.call} until ${longest.until.toFixed(3)}, ${hold.call} from ${hold.from.toFixed(3)}`,
      );
    }
    const previous = last.get(hold.key);
    if (previous !== undefined && previous.token >= hold.token && !excused) {
      violations.push(
        `token of ${hold.key} did not rise: ${previous.call} had ${previous.token}, ${hold.call} after it ${hold.token}`,
      );
    }
    if (longest === undefined || hold.until > longest.until) before.set(hold.key, hold);
    last.set(hold.key, hold);
  }
  return violations;
}
