export const RESULT_KINDS = ['promise', 'observable', 'iterable'] as const;

/** What a call of a locked method returns. */
export type ResultKind = (typeof RESULT_KINDS)[number];
