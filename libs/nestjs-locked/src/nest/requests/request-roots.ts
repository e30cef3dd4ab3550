import type { ArgumentsHost, ExecutionContext } from '@nestjs/common';

/** The kinds of requests of Nest and its packages for GraphQL, microservices and gateways. */
export type RequestKind = 'http' | 'graphql' | 'rpc' | 'ws';

type Read = (context: ExecutionContext) => unknown;

interface RequestLike {
  readonly headers?: unknown;
  readonly user?: unknown;
}

/** Their names in messages. */
export const KIND_NAMES: Readonly<Record<RequestKind, string>> = {
  http: 'an HTTP request',
  graphql: 'a GraphQL request',
  rpc: 'a message or event of a microservice',
  ws: 'a message to a gateway',
};

/** The roots that a placeholder can have in each kind of request, and how each is read. */
export const REQUEST_ROOTS: Readonly<Record<RequestKind, Readonly<Record<string, Read>>>> = {
  http: {
    params: ofHttpRequest('params'),
    body: ofHttpRequest('body'),
    query: ofHttpRequest('query'),
    headers: ofHttpRequest('headers'),
    user: ofHttpRequest('user'),
  },
  graphql: {
    args: (context) => context.getArgs<unknown[]>()[1],
    headers: (context) => graphqlRequest(context)?.headers,
    user: (context) => graphqlRequest(context)?.user ?? graphqlContext(context).user,
  },
  rpc: {
    data: (context) => context.switchToRpc().getData<unknown>(),
  },
  ws: {
    data: (context) => context.switchToWs().getData<unknown>(),
    user: gatewayUser,
  },
};

export const ALL_ROOTS: readonly string[] = [
  ...new Set(Object.values(REQUEST_ROOTS).flatMap((roots) => Object.keys(roots))),
];

const NONE = 'the request has none; use a function that builds the key from something else';

/** Why a part of a request may be missing, and the way out. */
export const MISSING_ROOTS: Readonly<Record<string, string>> = {
  params: NONE,
  body: 'no parser has read one; send it with its Content-Type, or build the key from params',
  query: NONE,
  headers: 'the GraphQL context has no request; return it there: context: ({ req }) => ({ req })',
  user: 'no guard has set it; put one that does on the route, such as @UseGuards(AuthGuard)',
  args: NONE,
  data: NONE,
};

export function isRequestKind(kind: string): kind is RequestKind {
  return Object.hasOwn(REQUEST_ROOTS, kind);
}

/** The request as a key function receives it. */
export function requestIn(context: ExecutionContext): unknown {
  return context.getType<string>() === 'graphql'
    ? graphqlRequest(context)
    : context.switchToHttp().getRequest<unknown>();
}

function ofHttpRequest(property: string): Read {
  return (context) => context.switchToHttp().getRequest<Record<string, unknown>>()[property];
}

/** Apollo's drivers for Express and Fastify call it `req`, others `request`; some have Fastify's `reply`. */
function graphqlRequest(context: ExecutionContext): RequestLike | undefined {
  const { req, request, reply } = graphqlContext(context);
  return req ?? request ?? reply?.request;
}

interface GraphqlContext {
  readonly req?: RequestLike;
  readonly request?: RequestLike;
  readonly reply?: { readonly request?: RequestLike };
  readonly user?: unknown;
}

/** The last argument but one, because reference resolvers of a federated graph have no `args` before it. */
export function graphqlContext(host: ArgumentsHost): GraphqlContext {
  return host.getArgs<(GraphqlContext | undefined)[]>().at(-2) ?? {};
}

/** Guards put the user on the client, as on a request, or into `data`, which Socket.IO reserves for the application. */
function gatewayUser(context: ExecutionContext): unknown {
  const client = context.switchToWs().getClient<RequestLike & { readonly data?: RequestLike }>();
  return client.user ?? client.data?.user;
}
