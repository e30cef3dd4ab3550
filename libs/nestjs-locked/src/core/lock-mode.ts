/**
 * How a call has its keys: alone, or together with all other calls that only read. A reader and an exclusive holder
 * never have the same key.
 */
export type LockMode = 'exclusive' | 'shared';

/** Says how a call wants each of its keys. It is called with the key, and not with its template. */
export type ModeOfKey = (key: string) => LockMode;
