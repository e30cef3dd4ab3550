import type { SentinelAddress, SentinelConnector } from './sentinel-connector.js';

/**
 * Which master a connection was made to, and which sentinel named it. ioredis listens to the sentinels only when it is
 * connected: of a failover between the answer of a sentinel and that moment, nobody would tell it, and the old master
 * may well say that it still is one.
 */
export class NamedMaster {
  readonly #connector: SentinelConnector;
  #sentinel: object | undefined;
  #address: string | undefined;
  /** The master that was left because a sentinel named another. If it is named again, that one stands alone. */
  #left: string | undefined;

  /** Begins to take note. The first connection must not have been begun yet. */
  constructor(connector: SentinelConnector) {
    this.#connector = connector;
    const resolve = connector.resolve.bind(connector);
    connector.resolve = async (endpoint) => {
      const address = await resolve(endpoint);
      if (address) {
        this.#sentinel = endpoint;
        this.#address = textOf(address); // now, because ioredis adds to it
        if (this.#left !== this.#address) this.#left = undefined;
      }
      return address;
    };
  }

  /** This sentinel has named the master of the present connection. */
  isFrom(endpoint: object): boolean {
    return this.#sentinel === endpoint;
  }

  /**
   * Whether the master is to be left because this sentinel names another one now. A sentinel that gives no answer does
   * not, and one that was left already while it was asked about is not left again. Neither is a master left twice in a
   * row: sentinels that differ for long would break every connection.
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
