import { isObject } from '../../../core/arguments.js';
import { assertOptions, flag, must, type OptionTable, withDefaults } from '../../../core/option.js';

/** The object form of `waitReplicas`. */
export interface WaitReplicas {
  /** How many replicas must have acknowledged a lease before it counts. 0 = none. */
  readonly replicas: number;
  /**
   * true: they must have it on disk, in their append-only files (`WAITAOF`). For installations that restart their
   * replicas. Requires Redis 7.2, or Valkey, and `appendonly yes` on the replicas. @default false
   */
  readonly aof?: boolean;
}

/** The option, checked and complete. */
export type RequiredReplicas = Required<WaitReplicas>;

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;

const COUNT = must(
  'a whole number of replicas from 0, or { replicas, aof: true or false }',
  isCount,
);

const OPTIONS: OptionTable<WaitReplicas> = {
  replicas: { isRequired: true, check: must('a whole number from 0', isCount) },
  aof: { default: false, check: flag },
};

/** @returns undefined if no replicas are required @throws LockConfigError */
export function requiredReplicas(option: unknown): RequiredReplicas | undefined {
  if (!isObject(option)) COUNT('waitReplicas', option);
  const given = (isObject(option) ? option : { replicas: option }) as WaitReplicas;
  assertOptions(OPTIONS, given, { prefix: 'waitReplicas.' });
  return given.replicas === 0 ? undefined : withDefaults(OPTIONS, given);
}
