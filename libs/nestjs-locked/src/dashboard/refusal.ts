import { LockKeyError, LockStoreError } from '../core/lock.errors.js';

/** Why a request is not carried out, for the person at the page. */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** @returns undefined for what nobody may be told: an error of `authorize`, or of ours */
export function told(error: unknown): [status: number, message: string] | undefined {
  if (error instanceof Refusal) return [error.status, error.message];
  if (error instanceof LockKeyError) return [400, error.message];
  return error instanceof LockStoreError ? [503, error.message] : undefined;
}
