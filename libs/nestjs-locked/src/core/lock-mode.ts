/**
 * How a call has its keys: alone, or together with all other calls that only read. A reader and an exclusive holder
 * never have the same key.
 */
export type LockMode = 'exclusive' | 'shared';

/** Says how a call wants each of its keys. It is called with the key, and not with its template. */
export type ModeOfKey = (key: string) => LockMode;

/**
 * How a key is held: `exclusive`, `shared` with all readers, or as a `permit`, together with so many others that all of
 * them hold at most `permits`. Holders of different kinds never have the same key.
 */
export type HeldMode = LockMode | 'permit';

/** Says how many may hold each key of a call; undefined: the call wants that key alone. */
export type PermitsOfKey = (key: string) => number | undefined;

/** How one key is wanted. */
export interface KeyTerms {
  readonly mode: HeldMode;
  /** Of a permit: how many may be in use at once, and how many of them this call takes. */
  readonly permits?: number;
  readonly weight?: number;
}
