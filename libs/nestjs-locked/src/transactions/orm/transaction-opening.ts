import { AsyncLocalStorage } from 'node:async_hooks';

interface Opening {
  /** What the transaction is opened on; undefined as soon as somebody has opened it. */
  connection: object | undefined;
}

const openings = new AsyncLocalStorage<Opening>();

/**
 * Opens one transaction that the coordinator knows already, on a connection that may be lock-aware itself. If it fails,
 * what is opened next is known as well: a driver may repeat it.
 */
export function openingOn<T>(connection: object, open: () => T): T {
  return openings.run({ connection }, open);
}

/**
 * Whether the transaction that is opened here and now is known already, because an adapter opens it, which knows more
 * than the connection: for instance, where its transactions are suspended. True only once: what is opened next is new.
 *
 * @returns undefined if it is not known; otherwise what to call when it has failed
 */
export function takeOpening(connection: object): (() => void) | undefined {
  const opening = openings.getStore();
  if (opening?.connection !== connection) return undefined;
  opening.connection = undefined;
  return () => void (opening.connection = connection);
}
