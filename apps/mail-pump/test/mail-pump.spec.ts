import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { eventually } from '../../../test/support/eventually.js';
import { useRedisServer } from '../../../test/support/own-redis.js';
import { writeMail } from '../src/outbox.js';
import { Replicas } from '../src/replicas.js';

const SOON_MS = 2_500;

const heard: string[] = [];
let replicas: Replicas;

afterAll(() => replicas.stop());
const redisServer = useRedisServer();

beforeAll(() => {
  replicas = new Replicas(redisServer.url, (_, line) => heard.push(line));
  for (const name of ['one', 'two', 'three']) replicas.start(name);
});

/** @returns the name of the process that leads */
function leading(): Promise<string> {
  return eventually(() => {
    expect(replicas.leader).toBeDefined();
    return replicas.leader as string;
  });
}

const sent = (): string[] => heard.flatMap((line) => /sent (mail \d+)$/.exec(line)?.[1] ?? []);

describe('mail-pump', () => {
  it('sends each mail once and in order, although two of three processes end', async () => {
    const mails = Array.from({ length: 6 }, (_, i) => `mail ${i + 1}`);
    const send = async (from: number, to: number): Promise<void> => {
      for (const mail of mails.slice(from, to)) await writeMail(redisServer.admin, mail);
      await eventually(() => expect(sent()).toEqual(mails.slice(0, to)));
      // A process that is killed between the two sends the mail again.
      await eventually(async () => expect(await redisServer.admin.llen('outbox')).toBe(0));
    };
    const first = await leading();
    await send(0, 2);

    expect(await replicas.endLeader('SIGKILL')).toBe(first);
    const second = await leading();
    await send(2, 4);

    const before = performance.now();
    expect(await replicas.endLeader('SIGTERM')).toBe(second);
    const third = await leading();
    expect(performance.now() - before).toBeLessThan(SOON_MS);
    await send(4, 6);
    expect(new Set([first, second, third]).size).toBe(3);
  });
});
