import { type ExecutionContext, HttpException } from '@nestjs/common';
import { isObject } from '../../core/arguments.js';
import { watchAbort } from '../../core/runtime/abort-watch.js';
import { eventPatternOf, type RpcContext } from './event-patterns.js';
import { grpcCallOf } from './grpc-call.js';
import { isAnswered } from './http-response.js';
import { requestIn } from './request-roots.js';

/** nginx's status for a client that has closed its connection. Nobody receives it, but logs and metrics show it. */
const CLIENT_CLOSED_REQUEST = 499;

/** Ends a request whose client has left. As an HttpException, it is not logged by Nest. */
export class ClientLeftException extends HttpException {
  constructor() {
    super('The client has left', CLIENT_CLOSED_REQUEST);
  }
}

/** The socket of a request, or a gRPC call. */
interface Connection {
  readonly destroyed?: unknown;
  readonly cancelled?: unknown;
  once(event: string, listener: () => void): unknown;
}

/** One for each connection, which may carry many requests, so that it gets one listener. */
const departures = new WeakMap<Connection, AbortSignal>();

/**
 * Calls back when the client of a request leaves before it is answered, even if that has already happened. Only if the
 * transport tells: HTTP, GraphQL over HTTP, gRPC and TCP. The sender of an event does not wait, so it may leave.
 *
 * @returns a function that cancels it
 */
export function whenClientLeaves(context: ExecutionContext, callback: () => void): () => void {
  const connection = connectionOf(context);
  if (connection === undefined) return () => {};
  const departure = departures.get(connection) ?? departureOf(connection);
  const leave = (): void => {
    const response = context.getType() === 'http' ? context.getArgByIndex<unknown>(1) : undefined;
    if (!isAnswered(response)) callback();
  };
  if (!departure.aborted) return watchAbort(departure, leave);
  leave();
  return () => {};
}

/** Listens to the connection and not to the request, which is closed as soon as its body was read. */
function departureOf(connection: Connection): AbortSignal {
  const left = new AbortController();
  if (connection.destroyed === true || connection.cancelled === true) left.abort();
  for (const event of ['close', 'cancelled']) connection.once(event, () => left.abort());
  departures.set(connection, left.signal);
  return left.signal;
}

function connectionOf(context: ExecutionContext): Connection | undefined {
  try {
    const found = CONNECTIONS[context.getType<string>()]?.(context);
    return isConnection(found) ? found : undefined;
  } catch {
    return undefined; // a function that is called like a handler may receive anything
  }
}

function isConnection(value: unknown): value is Connection {
  return isObject(value) && typeof (value as Partial<Connection>).once === 'function';
}

const CONNECTIONS: Readonly<Record<string, (context: ExecutionContext) => unknown>> = {
  http: socketOf,
  graphql: socketOf,
  rpc: rpcConnection,
};

function socketOf(context: ExecutionContext): unknown {
  return (requestIn(context) as { readonly socket?: unknown }).socket;
}

interface TcpContext extends RpcContext {
  getSocketRef?(): { readonly netSocket?: unknown };
}

function rpcConnection(context: ExecutionContext): unknown {
  const call = grpcCallOf(context);
  if (call !== undefined) return call;
  const tcp = context.switchToRpc().getContext<TcpContext>();
  return eventPatternOf(tcp) === undefined ? tcp.getSocketRef?.().netSocket : undefined;
}
