import type { Query } from './carried-statements.js';

/** What is called in the place of a client's `query`. @param send passes the statement on */
export type Interceptor = (args: unknown[], send: (args: unknown[]) => unknown) => unknown;

/** A client, as far as its statements can be intercepted. */
export interface InterceptableClient {
  query: Query;
}

export interface Interception {
  /** Sends past every interceptor. */
  readonly sendPast: (args: unknown[]) => unknown;
  /** The client is left as if it had never been intercepted, in whatever order several of them stop. */
  readonly stop: () => void;
}

/** The interceptors of one client, which several transactions may have: one after the other, or one that left it. */
interface Chain {
  readonly query: Query;
  readonly own: PropertyDescriptor | undefined;
  readonly intercepting: Query;
  interceptors: readonly Interceptor[];
}

const chains = new WeakMap<InterceptableClient, Chain>();

/** Shows every statement of a client to the interceptor first; those that came before it see the statement before. */
export function interceptQueries(
  client: InterceptableClient,
  interceptor: Interceptor,
): Interception {
  const chain = chains.get(client) ?? installedOn(client);
  chain.interceptors = [...chain.interceptors, interceptor];
  return {
    sendPast: (args) => chain.query.apply(client, args),
    stop: () => {
      chain.interceptors = chain.interceptors.filter((one) => one !== interceptor);
      if (chain.interceptors.length === 0) remove(client, chain);
    },
  };
}

function installedOn(client: InterceptableClient): Chain {
  const { query } = client;
  const intercepting: Query = (...args) => pass(chain.interceptors, args);
  /** @param left those that have not seen the statement */
  const pass = (left: readonly Interceptor[], args: unknown[]): unknown => {
    const [next, ...others] = left;
    if (next === undefined) return query.apply(client, args);
    if (!chain.interceptors.includes(next)) return pass(others, args); // it has stopped
    return next(args, (sent) => pass(others, sent));
  };
  const own = Object.getOwnPropertyDescriptor(client, 'query');
  const chain: Chain = { query, own, intercepting, interceptors: [] };
  client.query = intercepting;
  chains.set(client, chain);
  return chain;
}

/** Where somebody else has replaced `query` since, it passes everything on, and is used again. */
function remove(client: InterceptableClient, { intercepting, own }: Chain): void {
  if (client.query !== intercepting) return;
  if (own === undefined) Reflect.deleteProperty(client, 'query');
  else Object.defineProperty(client, 'query', own);
  chains.delete(client);
}
