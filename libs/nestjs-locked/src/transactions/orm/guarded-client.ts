import { readFile } from 'node:fs/promises';
import { callbackIn, isOwnQuery } from './carried-statements.js';
import {
  endingTextOf,
  isLazyQuery,
  isTemplate,
  type LazyQuery,
  textOf,
  textOfQuery,
} from './statement-text.js';

/** Called before a statement is sent. @param sql its text, if visible @throws if it may not be sent */
export type Ask = (sql?: string) => void;

/** Methods of a client that send no statements. */
const NO_STATEMENTS: readonly unknown[] = [
  ...['release', 'end', 'destroy', 'on', 'once', 'off', 'addListener', 'removeListener', 'emit'],
  ...['listenerCount', 'listeners', 'removeAllListeners', 'setMaxListeners', 'getMaxListeners'],
  ...['setTypeParser', 'getTypeParser', 'notify'],
];

/** Methods that format a value as part of a statement. */
const HELPER = /^(?:escape|quote|format|literal|ident|json|array|type|param)/i;

/** Methods whose first argument is a statement: of node-postgres, mysql2, pg-promise, then common names elsewhere. */
const SENDS: readonly unknown[] = [
  ...['query', 'execute', 'prepare'],
  ...['none', 'one', 'oneOrNone', 'many', 'manyOrNone', 'any', 'result', 'multi', 'multiResult'],
  ...['map', 'each', 'stream'],
  ...['unsafe', 'raw', 'exec', 'run', 'simple', 'queryRaw', 'executeRaw'],
];

/**
 * The effect on the transaction of methods without a statement. With mysql2, beginning a transaction commits the open
 * one, and the server rolls back when the user changes or the session is reset.
 */
const ENDS: ReadonlyMap<unknown, string> = new Map([
  ['commit', 'COMMIT'],
  ['beginTransaction', 'COMMIT'],
  ['rollback', 'ROLLBACK'],
  ['changeUser', 'ROLLBACK'],
  ['reset', 'ROLLBACK'],
]);

/** Methods that run a function with a client for a part of the transaction. */
const OPENS: readonly unknown[] = [
  ...['savepoint', 'begin', 'transaction', 'task', 'taskIf', 'tx', 'txIf'],
];

/** Methods that take the name of a database routine. */
const CALLS: readonly unknown[] = ['func', 'proc'];

type Callable = (...args: unknown[]) => unknown;

const PREPARES = "PREPARE TRANSACTION ''";
/** Guards of postgres.js transactions that will not send a COMMIT. */
const prepared = new WeakSet<Ask>();

/** The proxies of a transaction's clients: the same client always gets the same proxy. */
const guarded = new WeakMap<Ask, WeakMap<object, object>>();

/**
 * Guards a client of a transaction: it asks before each statement, as does each client that it returns. Arguments that
 * are not sent are not parsed, because values for helpers may begin with any word.
 */
export function guardedClient(client: object, ask: Ask): object {
  const known = guarded.get(ask) ?? new WeakMap<object, object>();
  guarded.set(ask, known);
  const guardedAlready = known.get(client);
  if (guardedAlready !== undefined) return guardedAlready;
  const made = guard(client, ask);
  known.set(client, made);
  return made;
}

function guard(client: object, ask: Ask): object {
  /** postgres.js, whose queries are sent when awaited. */
  const isLazy = typeof client === 'function' && 'typed' in client;
  return new Proxy(client, {
    apply: (target, self, args) => {
      if (!isLazy) ask(isTemplate(args[0]) ? textOf(args[0]) : endingTextOf(args[0]));
      const made: unknown = Reflect.apply(target as Callable, self, args);
      return isLazy ? askingWhenSent(made, ask) : made;
    },
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') {
        return name === 'connection' && hasCallbacks(value) ? guardedClient(value, ask) : value;
      }
      const call = (args: unknown[]): unknown => {
        const answer: unknown = Reflect.apply(value as Callable, target, args);
        return !isLazy && isClient(answer) ? guardedClient(answer, ask) : answer;
      };
      if (NO_STATEMENTS.includes(name) || HELPER.test(String(name))) {
        return isLazy ? value : (...args: unknown[]) => call(args); // `types` has properties
      }
      if (OPENS.includes(name)) return (...args: unknown[]) => opened(call, args, ask);
      if (isLazy && name === 'prepare') {
        return (...args: unknown[]) => {
          ask(PREPARES); // sent instead of the COMMIT
          prepared.add(ask); // a lock may be requested later
          return call(args);
        };
      }
      if (isLazy && name === 'file') {
        const { handler } = (target as SendsText).unsafe('');
        return (...args: unknown[]) => askingWhenRead(call(args), args[0], handler, ask);
      }
      if (isLazy) return (...args: unknown[]) => askingWhenSent(call(args), ask);
      return (...args: unknown[]) => {
        const refused = refusal(ask, textIn(name, args));
        if (refused !== undefined) {
          const answers = (SENDS.includes(name) || ENDS.has(name)) && !hasCallbacks(target);
          if (!answers || callbackIn(args) || isOwnQuery(args[0])) throw refused;
          return Promise.reject(refused); // because an answer is awaited
        }
        return name === 'prepare' ? preparedBy(call, args, ask) : call(args);
      };
    },
  });
}

function refusal(ask: Ask, sql?: string): Error | undefined {
  try {
    if (prepared.has(ask)) ask(PREPARES);
    ask(sql);
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

function textIn(name: string | symbol, [first]: readonly unknown[]): string | undefined {
  if (SENDS.includes(name)) return textOf(first);
  if (ENDS.has(name)) return ENDS.get(name);
  return CALLS.includes(name) ? undefined : endingTextOf(first);
}

/** Makes a lazy query ask when it is sent, and never if it becomes a part of another query. */
function askingWhenSent(query: unknown, ask: Ask): unknown {
  if (!isLazyQuery(query)) return query; // a part of a statement
  const { handler } = query;
  query.handler = (sent) => sendOrRefuse(sent, handler, ask);
  return query;
}

function sendOrRefuse(query: LazyQuery, send: LazyQuery['handler'], ask: Ask): void {
  const refused = refusal(ask, textOfQuery(query));
  if (refused === undefined) {
    send(query);
    return;
  }
  query.catch(() => {}); // whoever awaits it gets the error; the driver does the same
  query.reject(refused);
}

/** A transaction of postgres.js. */
interface SendsText {
  unsafe(text: string): LazyQuery;
}

/**
 * Reads the file of a query here, because its text is known only after reading, when the driver sends it at once.
 *
 * @param send sends a query with a known text
 */
function askingWhenRead(
  query: unknown,
  path: unknown,
  send: LazyQuery['handler'],
  ask: Ask,
): unknown {
  if (!isLazyQuery(query)) return query;
  query.handler = (sent) => {
    readFile(path as string, 'utf8').then((text) => {
      sent.strings = [text];
      sendOrRefuse(sent, send, ask);
    }, sent.reject);
  };
  return query;
}

/**
 * Runs a part of the transaction on a separate, guarded client. If the transaction no longer takes statements, the
 * driver is not told how the part ended, because it would send its own RELEASE or ROLLBACK TO.
 */
async function opened(
  call: (args: unknown[]) => unknown,
  args: unknown[],
  ask: Ask,
): Promise<unknown> {
  ask();
  const [tag] = args;
  const given = isTemplate(tag) ? [(part: Callable) => part(...args)] : args;
  return new Promise((resolve, reject) => {
    const guardedArg = (value: unknown): unknown =>
      isClient(value) ? guardedClient(value, ask) : value;
    const within = (body: Callable): Callable => {
      const run = async function (this: unknown, ...passed: unknown[]): Promise<unknown> {
        try {
          const result: unknown = Reflect.apply(body, guardedArg(this), passed.map(guardedArg));
          const value: unknown = await (Array.isArray(result) ? Promise.all(result) : result);
          ask();
          return value;
        } catch (error) {
          const refused = refusal(ask);
          if (refused !== undefined) {
            reject(error instanceof Error ? error : refused);
            return new Promise(() => {});
          }
          throw error;
        }
      };
      Object.defineProperty(run, 'name', { value: body.name }); // pg-promise reports the name
      return run;
    };
    const ended = call(given.map((one) => (isFunction(one) ? within(one) : one)));
    Promise.resolve(ended).then(resolve, reject);
  });
}

function isFunction(value: unknown): value is Callable {
  return typeof value === 'function';
}

/** A callback-based client of mysql2. `promise()` returns a promise-based one with this as `connection`. */
function hasCallbacks(value: unknown): value is object {
  return isClient(value) && typeof (value as { readonly promise?: unknown }).promise === 'function';
}

/** Whether it has `query`, as in node-postgres, mysql2 and pg-promise, or `unsafe`, as in postgres.js. */
export function isClient(value: unknown): value is object {
  if (typeof value !== 'function' && (typeof value !== 'object' || value === null)) return false;
  const { query, unsafe } = value as { readonly query?: unknown; readonly unsafe?: unknown };
  return typeof query === 'function' || typeof unsafe === 'function';
}

/** Guards a prepared statement of mysql2, whose text was already checked. */
function preparedBy(call: (args: unknown[]) => unknown, args: unknown[], ask: Ask): unknown {
  const given = args.map((one) =>
    isFunction(one)
      ? (error: unknown, statement?: object) => one(error, statement && asking(statement, ask))
      : one,
  );
  const answer = call(given);
  if (!(answer instanceof Promise)) return answer;
  return (answer as Promise<object>).then((statement) => asking(statement, ask));
}

function asking(statement: object, ask: Ask): object {
  return new Proxy(statement, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        if (name !== 'close') ask();
        const answered: unknown = Reflect.apply(value, target, args);
        return answered;
      };
    },
  });
}
