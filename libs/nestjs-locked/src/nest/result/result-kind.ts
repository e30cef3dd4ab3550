export const RESULT_KINDS = ['promise', 'observable', 'iterable'] as const;

/** What a call of a locked method returns. */
export type ResultKind = (typeof RESULT_KINDS)[number];

/** The kind of a method, as known while its class is being defined. An undeclared one should return a Promise. */
export type MethodKind = ResultKind | 'undeclared';
