import type { LockKeyError } from '../lock.errors.js';
import type { LockHolder } from '../lock-info.js';
import type { Asked, HolderQuestion } from './holder-question.js';
import { labelOf, processIdOf } from './lease-token.js';

/** The record of a held key in the store. */
export interface LockRecord {
  /** Without the prefix of the store. */
  readonly key: string;
  /** The value of the lock key: a token of ours, all readers, or whatever a foreign client wrote. */
  readonly value: string;
  /** How long the lease lasts if it is not renewed, in milliseconds; Infinity if it never expires. */
  readonly remainingMs: number;
  /** How many processes wait. */
  readonly waiters: number;
  /** How many of these places are of the process that asks: one for each mode. */
  readonly waitsHere: number;
  /** Those that have it: one, or the first of several readers, at most as many as were asked for of those that wait. */
  readonly holders: readonly HolderRecord[];
  /** The first of those that wait, as many as were asked for. */
  readonly queue: readonly WaiterRecord[];
}

/** A process that has a key. */
export interface HolderRecord {
  readonly token: string;
  readonly process: ProcessRecord | undefined;
}

/** A process that waits for a key. */
export interface WaiterRecord extends HolderRecord {
  /** How long it has had its place in the queue, by the clock of the store. */
  readonly waitedMs: number;
}

/** What tells which keys an operator should see, without asking for each of them. */
export interface SurveyedLock {
  /** The value of the lock key. Undefined if nobody holds it, although processes wait. */
  value: string | undefined;
  /** How many processes wait. */
  waiters: number;
  /** How long the first of them has waited; 0 if none waits. */
  waitedMs: number;
}

/** All keys that are held or waited for. */
export interface LockSurvey {
  readonly locks: ReadonlyMap<string, SurveyedLock>;
  /** There are more keys than were asked for. */
  readonly isPartial: boolean;
}

/** The identity of a process. */
export interface ProcessRecord {
  readonly host: string;
  readonly pid: number;
}

/** Shows operators who holds what. Unlike those of the store, its methods reject, with LockStoreError. */
export interface LockInspector {
  /**
   * @param mostWaiting how many of those that wait are named. @default 0
   * @returns undefined if nobody holds it
   */
  inspect(key: string, mostWaiting?: number): Promise<LockRecord | undefined>;
  /**
   * The held keys, in no particular order; keys taken or released meanwhile may be missing.
   * @param pattern as in Redis' MATCH: `*`, `?`, `[ab]`
   */
  list(pattern: string): AsyncIterable<string>;
  /**
   * Looks at all keys in steps that delay nobody, once for all patterns. What changes meanwhile may be missing.
   * @param patterns as for `list` @param most how many keys of each at the most
   * @returns for each pattern, what it has found, or why it can match no key @throws LockStoreError
   */
  survey(patterns: readonly string[], most: number): Promise<(LockSurvey | LockKeyError)[]>;
  /** Whether the store answers. @throws LockStoreError */
  ping(): Promise<void>;
  /**
   * How the store evicts keys, including leases, when its memory is full.
   * @returns undefined if it evicts none, or does not tell @throws LockStoreError
   */
  evictionPolicy(): Promise<string | undefined>;
  /**
   * Takes the key away from its holder, or from all readers, and notifies them.
   * @param value only if the leases in this value have it. @default whoever has it
   * @returns the holder; undefined if nobody held it, if it was just taken away, or if others have it
   */
  revoke(key: string, value?: string): Promise<Pick<LockRecord, 'value' | 'holders'> | undefined>;
  /**
   * Asks the process that holds the key which of its calls has it, or the first `MOST_HOLDERS_ASKED` of those that read
   * it. A `HolderAnswer` with the id of its question comes as a message from each that is alive and whose version knows
   * the question.
   * @param id begins the ids of the questions
   * @returns none if nobody has the key, or no process of ours
   */
  ask(key: string, id: string): Promise<readonly Asked[]>;
  /** Answers a question. */
  answer(question: HolderQuestion, text: string): Promise<void>;
}

/** @returns the first holder; undefined if it is no call of ours that has the key */
export function holderOf({
  holders: [first],
}: Pick<LockRecord, 'holders'>): LockHolder | undefined {
  return first && holderWith(first);
}

/** @returns undefined also for a text that no process of ours has written */
export function processIn(text: string | null): ProcessRecord | undefined {
  try {
    const { host, pid } = JSON.parse(text ?? '{}') as Partial<ProcessRecord>;
    return typeof host === 'string' && typeof pid === 'number' ? { host, pid } : undefined;
  } catch {
    return undefined;
  }
}

/** The public form of the record of a holder. */
export function holderWith({ token, process }: HolderRecord): LockHolder {
  const processId = processIdOf(token) ?? '';
  return { processId, host: process?.host, pid: process?.pid, label: labelOf(token) };
}
