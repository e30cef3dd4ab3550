/** The private fields of an ioredis connection through sentinels. */
export interface SentinelConnector {
  /** Connects to a sentinel to ask for the master; with options, to listen to it. */
  connectToSentinel(endpoint: object, options?: object): SentinelClient;
  /** Asks a sentinel for the address, on a separate connection. */
  resolve(endpoint: object): Promise<SentinelAddress | null>;
  /** Asks for the master on this connection. */
  resolveMaster(client: SentinelClient): Promise<SentinelAddress | null>;
  /** Listens to the sentinels; null until the first connection. */
  readonly failoverDetector?: {
    readonly sentinels?: readonly { readonly address?: object; readonly client?: SentinelClient }[];
  } | null;
}

export interface SentinelAddress {
  readonly host?: string;
  readonly port?: number;
}

export interface SentinelClient {
  readonly options: { autoResubscribe?: boolean | undefined };
  /** The socket; undefined before the first attempt to connect. */
  readonly stream?: { destroy(): unknown };
  on(event: 'ready' | 'end', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  subscribe(channel: string): Promise<unknown>;
  disconnect(): void;
}

/** Undefined for a connection without sentinels, or if a version of ioredis stores them elsewhere. */
export function sentinelConnectorOf(connection: object): SentinelConnector | undefined {
  const { connector } = connection as { connector?: Partial<SentinelConnector> };
  const parts = [connector?.connectToSentinel, connector?.resolve, connector?.resolveMaster];
  const isOne = parts.every((part) => typeof part === 'function');
  return isOne ? (connector as SentinelConnector) : undefined;
}
