import type { FenceClaim, RefusedClaim } from './database-session.js';

/** The claims in their order, in runs that are made in one way. */
export function inOneWay(claims: readonly FenceClaim[]): readonly (readonly FenceClaim[])[] {
  const runs: FenceClaim[][] = [];
  for (const claim of claims) {
    const run = runs.at(-1);
    if (run?.[0]?.isShared === claim.isShared) run.push(claim);
    else runs.push([claim]);
  }
  return runs;
}

/** @param tokens the tokens of their keys, in order */
export function refusedBy(
  tokens: readonly number[],
  claims: readonly FenceClaim[],
): readonly RefusedClaim[] {
  return claims
    .map(({ key, fencingNumber }, i) => ({ key, fencingNumber, newest: tokens[i] as number }))
    .filter(({ newest, fencingNumber }) => newest > fencingNumber)
    .map(({ key, newest }) => ({ key, newest }));
}
