import { AsyncLocalStorage } from 'node:async_hooks';

interface Opening {
  /** What the transaction is opened on; undefined as soon as somebody has opened it. */
  connection: object | undefined;
}

const openings = new AsyncLocalStorage<Opening>();

/** Opens one transaction that the coordinator knows already, on a connection that may be lock-aware itself. */
export function openingOn<T>(connection: object, open: () => T): T {
  return openings.run({ connection }, open);
}

/**
 * Whether the transaction that is opened here and now is known already, because an adapter opens it, which knows more
 * than the connection: for instance, where its transactions are suspended. True only once: what is opened next is new.
 */
export function takeOpening(connection: object): boolean {
  const opening = openings.getStore();
  if (opening?.connection !== connection) return false;
  opening.connection = undefined;
  return true;
}
