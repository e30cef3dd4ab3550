import { invalidOption } from '../../../core/lock.errors.js';

/** What `waitReplicas` may be besides a number. */
export interface WaitReplicas {
  /** How many replicas must have acknowledged a lease before it counts. 0 = none. */
  readonly replicas: number;
  /**
   * true: they must have it on disk, in their append-only files (`WAITAOF`). For installations that restart their
   * replicas. It takes Redis 7.2, or Valkey, and `appendonly yes` on the replicas. @default false
   */
  readonly aof?: boolean;
}

/** The same, checked and complete. */
export type RequiredReplicas = Required<WaitReplicas>;

const KNOWN: Readonly<Record<keyof WaitReplicas, true>> = { replicas: true, aof: true };

/** @returns undefined if nothing is to be waited for @throws LockConfigError */
export function requiredReplicas(option: unknown): RequiredReplicas | undefined {
  const { replicas, aof = false } = asObject(option);
  if (!Number.isSafeInteger(replicas) || replicas < 0 || typeof aof !== 'boolean') {
    throw refused(option);
  }
  return replicas === 0 ? undefined : { replicas, aof };
}

function asObject(option: unknown): WaitReplicas {
  if (typeof option !== 'object' || option === null) return { replicas: option as number };
  if (Object.keys(option).some((name) => !Object.hasOwn(KNOWN, name))) throw refused(option);
  return option as WaitReplicas;
}

function refused(option: unknown): Error {
  return invalidOption(
    'waitReplicas',
    option,
    'must be a whole number of replicas from 0, or { replicas, aof: true or false }',
  );
}
