import type { Attributes } from '@opentelemetry/api';
import type { LockAcquireMessage } from '../core/events/lock-messages.js';

/** The names of attributes. Those of metrics have few values each: never a key. */
export const ATTRIBUTE = {
  service: 'nestjs_locked.service',
  template: 'nestjs_locked.template',
  outcome: 'nestjs_locked.outcome',
  via: 'nestjs_locked.via',
  end: 'nestjs_locked.end',
  reason: 'nestjs_locked.reason',
  key: 'nestjs_locked.key',
  for: 'nestjs_locked.for',
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

/**
 * How a request for a lock ended. `failed`: Redis did not answer or refused; `refused`: the call was a mistake, such as
 * a wrong option; `restarted`: the transaction around it begins again with the lock.
 */
export type Outcome =
  'acquired' | 'busy' | 'queue-full' | 'deadlock' | 'aborted' | 'restarted' | 'refused' | 'failed';

const OUTCOMES: Readonly<Record<string, Outcome>> = {
  LOCK_NOT_ACQUIRED: 'busy',
  LOCK_QUEUE_FULL: 'queue-full',
  LOCK_DEADLOCK: 'deadlock',
  LOCK_ABORTED: 'aborted',
  LOCK_STORE_FAILED: 'failed',
};

export function outcomeOf({ error, via }: Pick<LockAcquireMessage, 'error' | 'via'>): Outcome {
  if (error !== undefined) return OUTCOMES[errorTypeOf(error)] ?? 'refused';
  return via === undefined ? 'restarted' : 'acquired';
}

/** The code of a LockError, or the name of any other. */
export function errorTypeOf(error: unknown): string {
  if (!(error instanceof Error)) return '_OTHER';
  return 'code' in error ? String(error.code) : error.name;
}
