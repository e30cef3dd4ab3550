/**
 * What a process does wrong on purpose, to check the checker, which must notice each of these rules:
 *
 * - unknown: the locks do not know the transactions, and are released before the commit
 * - inside: a lock that is asked for inside is taken there, and what was read before that is not read again
 * - branches: the transaction does not know its branches, which go on after it
 * - answer: a call that was rolled back is acknowledged
 * - order: some processes ask two lock services in one order, and others in the other order
 * - audits: code that asks for no lock runs under one all the same
 */
export const BROKEN_RULES = ['unknown', 'inside', 'branches', 'answer', 'order', 'audits'] as const;

export type BrokenRule = (typeof BROKEN_RULES)[number];
