import type { SentinelAddress, SentinelConnector } from './sentinel-connector.js';

/**
 * Tracks the master of a connection and the sentinel that named it. ioredis listens to the sentinels only when
 * connected: it would miss a failover between the answer of a sentinel and that moment, and the old master may still
 * claim to be one.
 */
export class NamedMaster {
  readonly #connector: SentinelConnector;
  #sentinel: object | undefined;
  #address: string | undefined;
  /** The master that was left because a sentinel named another one. If it is named again, that sentinel is outvoted. */
  #left: string | undefined;

  /** Begins tracking. The first connection must not have been started yet. */
  constructor(connector: SentinelConnector) {
    this.#connector = connector;
    const resolve = connector.resolve.bind(connector);
    connector.resolve = async (endpoint) => {
      const address = await resolve(endpoint);
      if (address) {
        this.#sentinel = endpoint;
        this.#address = textOf(address); // now, because ioredis modifies it
        if (this.#left !== this.#address) this.#left = undefined;
      }
      return address;
    };
  }

  /** Whether this sentinel has named the master of the current connection. */
  isFrom(endpoint: object): boolean {
    return this.#sentinel === endpoint;
  }

  /**
   * Whether to leave the master because this sentinel now names another one. Not if the sentinel does not answer, or if
   * the master was already left meanwhile. Nor is a master left twice in a row, because sentinels that disagree for
   * long would break every connection.
   */
  async isReplaced(endpoint: object): Promise<boolean> {
    const before = this.#address;
    if (before === undefined || before === this.#left) return false;
    const client = this.#connector.connectToSentinel(endpoint);
    client.on('error', () => {});
    try {
      const now = await this.#connector.resolveMaster(client);
      if (!now || textOf(now) === before || this.#address !== before) return false;
      this.#left = before;
      return true;
    } catch {
      return false;
    } finally {
      client.disconnect();
    }
  }
}

function textOf({ host, port }: SentinelAddress): string {
  return `${host}:${port}`;
}
