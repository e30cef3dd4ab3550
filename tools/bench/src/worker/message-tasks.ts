import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicNs } from '../measure/statistics.js';

const CHANNEL = 'bench:message';

let redis: Redis | undefined;
let tookNs: number[] = [];

/** The least that a message through Redis takes, from one process to another. */
export const MESSAGE_TASKS = {
  async listen({ url }: { readonly url: string }): Promise<void> {
    redis = new Redis(url);
    redis.on('message', (_, sentAt) => void tookNs.push(monotonicNs() - Number(sentAt)));
    await redis.subscribe(CHANNEL);
  },

  async openPublisher({ url }: { readonly url: string }): Promise<void> {
    redis = new Redis(url);
    await redis.ping();
  },

  /** One message after the other, as if each had work between them. */
  async publish({ count, everyMs }: { readonly count: number; readonly everyMs: number }) {
    for (let n = 0; n < count; n += 1) {
      await sleep(everyMs);
      await redis?.publish(CHANNEL, String(monotonicNs()));
    }
  },

  /** How long each message took that has arrived since the last time, in nanoseconds. */
  async heard(): Promise<Float64Array> {
    const heard = Float64Array.from(tookNs);
    tookNs = [];
    return heard;
  },
};
