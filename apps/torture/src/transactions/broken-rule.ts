/**
 * What a process does wrong on purpose, so that the checker can be checked: it must see each of them.
 *
 * - unknown: the locks do not know the transactions, and are released before the commit
 * - inside: a lock that is asked for inside is taken there, and what was read before is not read again
 * - branches: the transaction knows nothing of its branches, which go on after it
 * - answer: a call that was rolled back is acknowledged
 * - order: two lock services are asked in the one order by some, in the other order by others
 */
export const BROKEN_RULES = ['unknown', 'inside', 'branches', 'answer', 'order'] as const;

export type BrokenRule = (typeof BROKEN_RULES)[number];
