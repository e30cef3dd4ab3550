import type { PgClient } from './pg-client.js';

/** A statement of node-postgres in flight. */
interface PgQuery {
  submit: (connection: PgConnection) => unknown;
  handleCommandComplete: (message: unknown, connection: PgConnection) => void;
}

/** Writes the messages of the extended protocol. */
interface PgConnection {
  readonly stream: { cork(): void; uncork(): void };
  parse(query: { text: string; name: string; types: unknown[] }): void;
  bind(query: { portal: string; statement: string; values: unknown[] }): void;
  execute(query: { portal: string; rows: number }): void;
}

type Callback = (error: Error | null, result?: unknown) => void;
export type Query = (...args: unknown[]) => unknown;

/** A client that can send messages of ours before those of a statement. */
export interface CarryingClient extends PgClient {
  query: Query;
  readonly constructor: {
    readonly Query: new (config: object, values: undefined, callback: Callback) => PgQuery;
  };
}

export function isCarryingClient(value: unknown): value is CarryingClient {
  if (typeof value !== 'object' || value === null) return false;
  const { query, constructor, connection } = value as Partial<CarryingClient> & {
    connection?: Partial<PgConnection>;
  };
  return (
    typeof query === 'function' &&
    typeof constructor?.Query === 'function' &&
    typeof connection?.parse === 'function' &&
    typeof connection.stream?.cork === 'function'
  );
}

/** A query that sends itself, such as a cursor. */
export interface OwnQuery {
  /** The text of a plain query; a cursor has none. */
  readonly text?: unknown;
  submit(connection: unknown): unknown;
  handleError: (error: Error) => void;
  handleReadyForQuery: (connection: unknown) => void;
}

export function isOwnQuery(statement: unknown): statement is OwnQuery {
  return typeof (statement as { submit?: unknown } | undefined)?.submit === 'function';
}

/** The callback of a call, possibly inside its statement. A self-sending query does not expose it. */
export function callbackIn(args: readonly unknown[]): Callback | undefined {
  const [statement] = args;
  const inside = isOwnQuery(statement) ? undefined : (statement as PgConfig | undefined)?.callback;
  return [...args, inside].find((one): one is Callback => typeof one === 'function');
}

interface PgConfig {
  readonly text?: unknown;
  readonly values?: unknown;
  readonly callback?: unknown;
}

function configOf([first, second]: readonly unknown[]): PgConfig {
  const config = typeof first === 'string' ? { text: first } : (first as PgConfig);
  return Array.isArray(second) ? { ...config, values: second } : config;
}

/** The text of a statement without parameters. */
export function plainText(args: readonly unknown[]): string | undefined {
  if (isOwnQuery(args[0])) return undefined;
  const { text, values } = configOf(args);
  const isPlain = !Array.isArray(values) || values.length === 0;
  return typeof text === 'string' && isPlain ? text : undefined;
}

/** The answer of node-postgres to a statement without rows. */
export function answer(args: readonly unknown[]): Promise<unknown> | undefined {
  const command = (plainText(args) ?? '').trim().split(/[\s;]/, 1)[0]?.toUpperCase();
  const result = { command, rowCount: null, oid: null, rows: [], fields: [] };
  const callback = callbackIn(args);
  if (callback === undefined) return Promise.resolve(result);
  queueMicrotask(() => callback(null, result));
  return undefined;
}

/**
 * Sends the held statements followed by this one. They use the extended protocol without their own Sync, so if one of
 * them fails, the server skips all later ones.
 *
 * @param onFailed called if a held statement has failed, or its outcome is unknown
 */
export function carry(
  client: CarryingClient,
  held: readonly string[],
  args: readonly unknown[],
  onFailed: (error: Error) => void,
): Promise<unknown> | undefined {
  const send = (callback: Callback): void => {
    let answersToCome = held.length;
    const answered: Callback = (error, result) => {
      if (error !== null && answersToCome > 0) onFailed(error);
      callback(error, result);
    };
    const query = new client.constructor.Query({ ...configOf(args) }, undefined, answered);
    const { submit, handleCommandComplete } = query;
    query.submit = (connection) => {
      connection.stream.cork();
      try {
        for (const text of held) {
          connection.parse({ text, name: '', types: [] });
          connection.bind({ portal: '', statement: '', values: [] });
          connection.execute({ portal: '', rows: 0 });
        }
        return submit.call(query, connection);
      } finally {
        connection.stream.uncork();
      }
    };
    query.handleCommandComplete = (message, connection) => {
      if (answersToCome > 0) answersToCome--;
      else handleCommandComplete.call(query, message, connection);
    };
    client.query(query);
  };
  const callback = callbackIn(args);
  if (callback !== undefined) {
    send(callback);
    return undefined;
  }
  return new Promise((resolve, reject) => {
    send((error, result) => (error === null ? resolve(result) : reject(error)));
  });
}
