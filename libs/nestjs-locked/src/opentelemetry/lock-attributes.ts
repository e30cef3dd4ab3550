import type { Attributes } from '@opentelemetry/api';

/** The names of attributes. Those of metrics have few values each: never a key. */
export const ATTRIBUTE = {
  service: 'nestjs_locked.service',
  template: 'nestjs_locked.template',
  outcome: 'nestjs_locked.outcome',
  via: 'nestjs_locked.via',
  end: 'nestjs_locked.end',
  reason: 'nestjs_locked.reason',
  keys: 'nestjs_locked.keys',
  label: 'nestjs_locked.label',
  fencingToken: 'nestjs_locked.fencing_token',
  waitMs: 'nestjs_locked.wait_limit',
  errorType: 'error.type',
} as const;

/** The attributes that every span and every measurement has. */
export function commonAttributes(
  service: string | undefined,
  template: string | undefined,
): Attributes {
  return {
    ...(service === undefined ? {} : { [ATTRIBUTE.service]: service }),
    ...(template === undefined ? {} : { [ATTRIBUTE.template]: template }),
  };
}

/** How a request for a lock ended. */
export type Outcome = 'acquired' | 'busy' | 'queue-full' | 'aborted' | 'failed';

const OUTCOMES: Readonly<Record<string, Outcome>> = {
  LOCK_NOT_ACQUIRED: 'busy',
  LOCK_QUEUE_FULL: 'queue-full',
  LOCK_ABORTED: 'aborted',
};

/** @param error that of the request; undefined if the lock was acquired */
export function outcomeOf(error: unknown): Outcome {
  return error === undefined ? 'acquired' : (OUTCOMES[errorTypeOf(error)] ?? 'failed');
}

/** The code of a LockError, or the name of any other. */
export function errorTypeOf(error: unknown): string {
  if (!(error instanceof Error)) return '_OTHER';
  return 'code' in error ? String(error.code) : error.name;
}
