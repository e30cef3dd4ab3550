import type { Query } from './carried-statements.js';

/** Replaces a client's `query`. @param send forwards the statement */
export type Interceptor = (args: unknown[], send: (args: unknown[]) => unknown) => unknown;

/** The part of a client whose statements can be intercepted. */
export interface InterceptableClient {
  query: Query;
}

export interface Interception {
  /** Sends a statement that no interceptor sees. */
  readonly sendPast: (args: unknown[]) => unknown;
  /** Restores the client as if never intercepted, in whatever order several interceptions stop. */
  readonly stop: () => void;
}

/** The interceptors of one client, one for each transaction that uses or has used it. */
interface Chain {
  readonly query: Query;
  readonly own: PropertyDescriptor | undefined;
  readonly intercepting: Query;
  interceptors: readonly Interceptor[];
}

const chains = new WeakMap<InterceptableClient, Chain>();

/** Passes every statement of a client to the interceptor, after earlier interceptors. */
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
  /** @param left the interceptors that have not seen the statement yet */
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

/** If other code has replaced `query` since, the interception forwards everything, and is reused. */
function remove(client: InterceptableClient, { intercepting, own }: Chain): void {
  if (client.query !== intercepting) return;
  if (own === undefined) Reflect.deleteProperty(client, 'query');
  else Object.defineProperty(client, 'query', own);
  chains.delete(client);
}
