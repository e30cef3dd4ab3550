import type { LockWait } from '../lock-info.js';

/** A wait of the process that answers, which names host and process id once for all of them. */
type WrittenWait = Pick<LockWait, 'id' | 'label' | 'key' | 'holds'> & { readonly since: number };

interface WrittenWaits {
  readonly process: string;
  readonly host: string;
  readonly pid: number;
  readonly waits: readonly WrittenWait[];
}

/** A call seldom waits for more than one key: only if it has several branches. */
const MOST_WAITS = 20;
const MOST_KEYS = 20;

/** The waits of one process, for a message. */
export function writtenWaits(waits: readonly LockWait[]): string {
  const [first] = waits;
  if (first === undefined) return '';
  const written = waits.slice(0, MOST_WAITS).map(({ id, label, key, since, holds }) => ({
    id,
    label,
    key,
    since: since.getTime(),
    holds: holds.slice(0, MOST_KEYS),
  }));
  const { processId: process, host, pid } = first;
  return JSON.stringify({ process, host, pid, waits: written } satisfies WrittenWaits);
}

/** Reads what `writtenWaits` has written. @returns undefined for anything else, which any client can send */
export function readWaits(text: string): readonly LockWait[] | undefined {
  if (text === '') return [];
  const written = parsed(text);
  if (!isWrittenWaits(written)) return undefined;
  const { process: processId, host, pid, waits } = written;
  return waits.map(({ id, label, key, since, holds }) => {
    return { processId, host, pid, id, label, key, since: new Date(since), holds };
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isWrittenWaits(value: unknown): value is WrittenWaits {
  const { process, host, pid, waits } = Object(value) as Partial<WrittenWaits>;
  const isNamed = typeof process === 'string' && typeof host === 'string';
  return isNamed && Number.isInteger(pid) && Array.isArray(waits) && waits.every(isWrittenWait);
}

function isWrittenWait(value: unknown): value is WrittenWait {
  const { id, label, key, since, holds } = Object(value) as Partial<WrittenWait>;
  const isLabel = label === undefined || typeof label === 'string';
  const isNamed = typeof id === 'string' && typeof key === 'string' && isLabel;
  const areKeys = Array.isArray(holds) && holds.every((held) => typeof held === 'string');
  // Other numbers are no date.
  return isNamed && areKeys && typeof since === 'number' && Math.abs(since) <= 8.64e15;
}
