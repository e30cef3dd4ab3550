import { type SentinelClient, sentinelConnectorOf } from './sentinel-connector.js';

/** How long a sentinel has for its first answer, and at most; in milliseconds. */
const FIRST_LIMIT_MS = 1_000;
const LONGEST_LIMIT_MS = 8_000;

/** How long a connection to a sentinel may take to close in good order. */
const DISCONNECT_MS = 500;

export interface SentinelQuestionsOptions {
  /** The limit that the user has set for an answer, in milliseconds. @default 1 s, and longer if nobody answers */
  readonly limitMs?: number | undefined;
  /** Told what breaks a connection. All that ioredis tells is that it is closed. */
  readonly onError: (error: Error) => void;
}

/**
 * The connections on which ioredis asks the sentinels for the master. It would wait for ever for one that accepts a
 * connection and does not answer, such as one that is frozen: no other sentinel would be asked, and nothing would end
 * that when the locks are closed.
 */
export class SentinelQuestions {
  readonly #open = new Set<SentinelClient>();
  /** Questions since the latest answer. */
  #unanswered = 0;
  #isLeft = false;

  /** @param connection has not begun to connect yet */
  constructor(connection: object, { limitMs, onError }: SentinelQuestionsOptions) {
    const connector = sentinelConnectorOf(connection);
    if (connector === undefined) return;
    const connect = connector.connectToSentinel.bind(connector);
    connector.connectToSentinel = (endpoint, options) => {
      const own: Record<string, unknown> = { disconnectTimeout: DISCONNECT_MS };
      const isQuestion = options === undefined;
      if (isQuestion) own['commandTimeout'] = limitMs ?? this.#nextLimitMs();
      const client = connect(endpoint, { ...own, ...options });
      client.on('error', onError);
      if (isQuestion) {
        this.#open.add(client);
        client.on('end', () => this.#open.delete(client));
        if (this.#isLeft) client.disconnect();
      }
      return client;
    };
    const resolveMaster = connector.resolveMaster.bind(connector);
    connector.resolveMaster = async (client) => {
      const address = await resolveMaster(client);
      this.#unanswered = 0;
      return address;
    };
  }

  /** Ends those that are open, and those that ioredis still makes: it looks for a while before it gives up. */
  leave(): void {
    this.#isLeft = true;
    for (const client of this.#open) {
      // In good order, it would wait for a sentinel that does not answer.
      if (client.stream !== undefined) client.stream.destroy();
      else client.disconnect();
    }
  }

  /** A link may be so slow that no answer can come in the first limit. */
  #nextLimitMs(): number {
    return Math.min(FIRST_LIMIT_MS * 2 ** this.#unanswered++, LONGEST_LIMIT_MS);
  }
}
