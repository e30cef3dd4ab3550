import { createHash } from 'node:crypto';
import type { LockHolder } from '../lock-info.js';
import { processIdOf, termsOf } from './lease-token.js';

/** Several readers, or permits. */
const SEVERAL = /^(?:shared|permits) /;

/**
 * @param value what the store has for a key: a token, or `shared` or `permits`, and for each holder the end of its
 * lease, the slot of a permit, and its token
 * @returns the tokens that have the key; none if it is not a call of ours that has it
 */
export function tokensIn(value: string): readonly string[] {
  if (!SEVERAL.test(value)) return processIdOf(value) === undefined ? [] : [value];
  const holders = value.split(' ').slice(1);
  return holders.map((it) => it.slice(it.indexOf(':') + 1)).filter((it) => processIdOf(it));
}

/** @returns what the value of a key says of a permit; nothing of another token */
export function permitOf(value: string, token: string): Pick<LockHolder, 'slot' | 'weight'> {
  const { weight } = termsOf(token) ?? {};
  if (weight === undefined) return {};
  const holder = value.split(' ').find((it) => it.endsWith(`:${token}`)) ?? '';
  return { slot: Number(/^\d+\/(\d+):/.exec(holder)?.[1] ?? 0), weight };
}

/** @returns what stays the same in the value of a key as long as the same leases have it */
export function leasesIn(value: string): string {
  const tokens = tokensIn(value);
  return tokens.length === 0 ? value : tokens.join(' ');
}

/**
 * @param value what the store has for a key
 * @returns a text that tells its leases from others, for people and pages; a foreign client may take its value for a
 * secret
 */
export function leaseIdOf(value: string): string {
  return createHash('sha256').update(leasesIn(value)).digest('hex').slice(0, 16);
}
