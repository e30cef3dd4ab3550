import type { HolderAnswer } from '../core/store/holder-question.js';
import { systemClock } from '../core/time/clock.js';
import type { RedisConnection } from '../redis/connection/server/redis-client.js';
import { withinLimit } from '../redis/connection/silence/time-limit.js';
import { parseInboxMessage } from '../redis/connection/traffic/inbox-message.js';
import { LIMIT_MS } from './ask-redis.js';

/** Receives the answers to the questions of an operator, on a connection of its own. */
export class OperatorInbox {
  readonly #redis: RedisConnection;

  /** @param redis not connected yet; closed with the inbox */
  constructor(redis: RedisConnection, heard: (answer: HolderAnswer) => void) {
    this.#redis = redis;
    redis.on('error', () => {}); // rejects the command, too
    redis.on('message', (_channel, text) => {
      const message = parseInboxMessage(text);
      if (message?.kind === 'answer') heard(message);
    });
  }

  /** @throws LockStoreError */
  async open(channels: readonly string[]): Promise<void> {
    await withinLimit(systemClock, LIMIT_MS, 'subscribe to the answers', async () => {
      await this.#redis.connect();
      for (const channel of channels) await this.#redis.subscribe(channel);
    });
  }

  close(): void {
    this.#redis.disconnect();
  }
}
