import type { LockWait } from '../lock-info.js';
import type { PresentCall } from '../store/holder-question.js';

/** What a process says about a key. */
export interface HolderState {
  /** The call that has the key; null: none has it now; undefined: unknown, as the process does not say. */
  readonly call: PresentCall | null | undefined;
  /** What that call waits for. */
  readonly waits: readonly LockWait[];
}

/** The process that answers. */
type Answering = Pick<LockWait, 'processId' | 'host' | 'pid'>;

/** A wait of the process that answers, which names host and process id once for all of them. */
type WrittenWait = Pick<LockWait, 'id' | 'label' | 'key' | 'holds'> & { readonly since: number };

interface WrittenCall {
  readonly label?: string | undefined;
  readonly since: number;
  readonly fence: number;
  readonly trace?: string | undefined;
}

interface WrittenAnswer {
  readonly process: string;
  readonly host: string;
  readonly pid: number;
  readonly waits: readonly WrittenWait[];
  readonly call?: WrittenCall | null | undefined;
}

/** A call seldom waits for more than one key: only if it has several branches. But a lease may have many readers. */
const MOST_WAITS = 100;
const MOST_KEYS = 20;

/** The answer of a process, for a message. @param state undefined if it does not have the key */
export function writtenAnswer(
  { processId: process, host, pid }: Answering,
  state: HolderState | undefined,
): string {
  if (state === undefined) return '';
  const waits = state.waits.slice(0, MOST_WAITS).map(({ id, label, key, since, holds }) => ({
    id,
    label,
    key,
    since: since.getTime(),
    holds: holds.slice(0, MOST_KEYS),
  }));
  const call = state.call && writtenCall(state.call);
  return JSON.stringify({ process, host, pid, waits, call } satisfies WrittenAnswer);
}

function writtenCall({ label, since, fencingToken, traceParent }: PresentCall): WrittenCall {
  return { label, since: since.getTime(), fence: fencingToken, trace: traceParent };
}

/** Reads what `writtenAnswer` has written. @returns undefined for anything else, which any client can send */
export function readAnswer(text: string): HolderState | undefined {
  if (text === '') return { call: undefined, waits: [] };
  const written = parsed(text);
  if (!isWrittenAnswer(written)) return undefined;
  const { process: processId, host, pid, waits, call } = written;
  return {
    call: call && readCall(call),
    waits: waits.map(({ id, label, key, since, holds }) => {
      return { processId, host, pid, id, label, key, since: new Date(since), holds };
    }),
  };
}

function readCall({ label, since, fence, trace }: WrittenCall): PresentCall {
  return { label, since: new Date(since), fencingToken: fence, traceParent: trace };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isWrittenAnswer(value: unknown): value is WrittenAnswer {
  const { process, host, pid, waits, call } = Object(value) as Partial<WrittenAnswer>;
  const isNamed = typeof process === 'string' && typeof host === 'string' && Number.isInteger(pid);
  const isCall = call === undefined || call === null || isWrittenCall(call);
  return isNamed && isCall && Array.isArray(waits) && waits.every(isWrittenWait);
}

function isWrittenCall(value: unknown): value is WrittenCall {
  const { label, since, fence, trace } = Object(value) as Partial<WrittenCall>;
  return isText(label) && isText(trace) && isTime(since) && Number.isSafeInteger(fence);
}

function isWrittenWait(value: unknown): value is WrittenWait {
  const { id, label, key, since, holds } = Object(value) as Partial<WrittenWait>;
  const isNamed = typeof id === 'string' && typeof key === 'string' && isText(label);
  const areKeys = Array.isArray(holds) && holds.every((held) => typeof held === 'string');
  return isNamed && areKeys && isTime(since);
}

function isText(value: unknown): value is string | undefined {
  return value === undefined || typeof value === 'string';
}

/** Other numbers are no date. */
function isTime(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= 8.64e15;
}
