import { type SentinelClient, sentinelConnectorOf } from './sentinel-connector.js';

/** The first and the longest time limit for an answer of a sentinel, in milliseconds. */
const FIRST_LIMIT_MS = 1_000;
const LONGEST_LIMIT_MS = 8_000;

/** How long a connection to a sentinel may take to close gracefully. */
const DISCONNECT_MS = 500;

export interface SentinelQuestionsOptions {
  /** The user's time limit for an answer, in milliseconds. @default 1 s, and longer if no sentinel answers */
  readonly limitMs?: number | undefined;
  /** Receives the error that breaks a connection; ioredis reports only that it is closed. */
  readonly onError: (error: Error) => void;
}

/**
 * Limits the connections on which ioredis asks the sentinels for the master. ioredis would wait for ever for a sentinel
 * that accepts a connection but does not answer, such as a frozen one: it would ask no other sentinel, and nothing
 * would end the wait when the locks are closed.
 */
export class SentinelQuestions {
  readonly #open = new Set<SentinelClient>();
  /** The number of questions since the latest answer. */
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

  /** Ends open connections, and later ones of ioredis, which keeps trying for a while before it gives up. */
  leave(): void {
    this.#isLeft = true;
    for (const client of this.#open) {
      // A graceful disconnect would wait for a sentinel that does not answer.
      if (client.stream !== undefined) client.stream.destroy();
      else client.disconnect();
    }
  }

  /** Grows, because a link may be too slow for the first limit. */
  #nextLimitMs(): number {
    return Math.min(FIRST_LIMIT_MS * 2 ** this.#unanswered++, LONGEST_LIMIT_MS);
  }
}
