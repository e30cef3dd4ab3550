import type { LockHolder } from '../lock-info.js';
import type { PresentCall } from '../store/holder-question.js';
import type { AskedHolder } from './holder-questions.js';

/**
 * The call that has a key now, as its process says.
 * @param token of the lease that is meant: another one may have the key since
 * @returns null if no call has it; undefined if that is unknown
 */
export function presentCall(
  token: string,
  told: AskedHolder | undefined,
): PresentCall | null | undefined {
  return told?.token === token ? told.answer?.call : undefined;
}

/** @param holder as the store names it: with the call for which its process requested the lease */
export function withCall(
  holder: LockHolder | undefined,
  call: PresentCall | null | undefined,
): LockHolder | undefined {
  return holder === undefined || call === undefined ? holder : { ...holder, label: call?.label };
}
