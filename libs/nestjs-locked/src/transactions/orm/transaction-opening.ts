import { ContextVariable } from '../../core/context-variable.js';

interface Opening {
  /** The object on which the transaction is opened; undefined once opened. */
  connection: object | undefined;
}

const OPENING = new ContextVariable<Opening>();

/**
 * Opens one transaction already known to the coordinator, on a connection that may be lock-aware itself. If it fails,
 * the next transaction opened is known as well, because a driver may repeat it.
 */
export function openingOn<T>(connection: object, open: () => T): T {
  return OPENING.run({ connection }, open);
}

/**
 * Whether the transaction being opened is already known, because an adapter opens it, which knows more than the
 * connection, such as where its transactions are suspended. True only once: the next transaction is new.
 *
 * @returns undefined if unknown; otherwise a function to call when it has failed
 */
export function takeOpening(connection: object): (() => void) | undefined {
  const opening = OPENING.get();
  if (opening?.connection !== connection) return undefined;
  opening.connection = undefined;
  return () => void (opening.connection = connection);
}
