import { isBroken } from './broken-connection.js';

/** The state of statements in drivers. */
interface MaybeBusy {
  /** node-postgres: false from the moment a statement is sent until it was answered. */
  readonly readyForQuery?: unknown;
  /** mysql2: the unanswered statement. */
  readonly _command?: unknown;
}

/** The latest wait for a connection. Two concurrent waits would wait for each other's statements for ever. */
const WAITS = new WeakMap<object, Promise<void>>();

/** Whether a statement sent now would wait in the driver for the answers to others. */
export function isBusy(connection: unknown): boolean {
  if (isBroken(connection)) return false;
  const { readyForQuery, _command } = (connection ?? {}) as MaybeBusy;
  return readyForQuery === false || (typeof _command === 'object' && _command !== null);
}

/**
 * Waits until the next statement would be written at once: otherwise, checks made before it would be outdated by the
 * time the driver writes it.
 *
 * @param send sends a statement on this connection after all others, and calls back when it was answered
 * @param look called before each wait and after the last @throws what it throws
 */
export function whenIdle(
  connection: object,
  send: (args: unknown[]) => unknown,
  look: () => void,
): Promise<void> {
  const before = WAITS.get(connection) ?? Promise.resolve();
  const wait = before.catch(() => {}).then(() => waitUntilIdle(connection, send, look));
  WAITS.set(connection, wait);
  return wait;
}

async function waitUntilIdle(
  connection: object,
  send: (args: unknown[]) => unknown,
  look: () => void,
): Promise<void> {
  while (isBusy(connection)) {
    look();
    await new Promise((answered) => send(['SELECT 1', answered]));
  }
  look();
}
