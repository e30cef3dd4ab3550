import { isBroken } from './broken-connection.js';

/** What drivers know of the statements that they were given. */
interface MaybeBusy {
  /** node-postgres: false from the moment a statement is sent until it was answered. */
  readonly readyForQuery?: unknown;
  /** mysql2: the statement that is not answered yet. */
  readonly _command?: unknown;
}

/** The latest wait for a connection. Two at once would each wait for what the other one sends, for ever. */
const WAITS = new WeakMap<object, Promise<void>>();

/** Whether a statement that is sent now waits in its driver for the answers to others. */
export function isBusy(connection: unknown): boolean {
  if (isBroken(connection)) return false;
  const { readyForQuery, _command } = (connection ?? {}) as MaybeBusy;
  return readyForQuery === false || (typeof _command === 'object' && _command !== null);
}

/**
 * Waits until a statement that is sent next is written at once: whatever is looked at before it would be old by the
 * time the driver writes it.
 *
 * @param send sends a statement on this connection, behind all others, and calls back when it was answered
 * @param look called before each wait, and behind the last @throws what it throws
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
