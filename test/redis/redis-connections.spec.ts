/** The two connections to a server, on a fake clock, over connections that are played by the test. */
import { describe, expect, it } from '@jest/globals';
import type { LockServersListener } from '../../libs/nestjs-locked/src/redis/connection/lock-servers.js';
import { RedisConnections } from '../../libs/nestjs-locked/src/redis/connection/redis-connections.js';
import type { RedisConnectionsOptions } from '../../libs/nestjs-locked/src/redis/connection/redis-connections.options.js';
import { RedisKeys } from '../../libs/nestjs-locked/src/redis/scripts/redis-keys.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { PlayedRedis } from '../support/played-redis.js';

const PING_EVERY_MS = 10_000;

async function start() {
  const clock = new FakeClock();
  const [commands, inbox] = [new PlayedRedis(), new PlayedRedis()];
  const server = { runId: 'a' };
  commands.info = async () => `role:master\nrun_id:${server.runId}`;
  Object.assign(commands, {
    eval: async () => 1,
    scan: async () => ['0', []],
    call: async () => ['lock:inbox:me', 1],
  });
  const probe = {
    send: async (_redis: unknown, _keys: unknown, [channel, text]: readonly string[]) => {
      setImmediate(() => inbox.emit('message', channel, text));
      return 1;
    },
  };
  const connections = new RedisConnections(
    {
      options: {},
      duplicate: (override) => {
        const { connectionName } = override as { readonly connectionName: string };
        return (connectionName.includes('inbox') ? inbox : commands).client.duplicate(override);
      },
    },
    {
      ...{ clock, keys: new RedisKeys('lock:'), processId: 'me', scripts: [], probe },
      ...{ timeLimitMs: 1_000, leaseMs: 3_000, pingEveryMs: PING_EVERY_MS },
    } as unknown as RedisConnectionsOptions,
  );
  const told: string[] = [];
  const nothing = (): void => {};
  const listener: LockServersListener = {
    ...{ message: nothing, awaited: nothing, subscribed: nothing },
    ...{ inboxBack: nothing, inboxLost: nothing },
    ...{ rightsLost: nothing, rightsBack: nothing, replaced: nothing },
    ...{ lost: nothing, back: nothing, connected: nothing },
    inboxFails: () => void told.push('inboxFails'),
  };
  await connections.open(listener, 10_000);
  /** The inbox connects again, and its subscription is not answered. */
  const loseInbox = async (): Promise<void> => {
    inbox.subscribe = () => new Promise(() => {});
    inbox.disconnect(true);
    await settled();
    expect(connections.listensFor()).toBe(false);
  };
  return { clock, commands, connections, server, told, loseInbox };
}

describe('an inbox that cannot be restored', () => {
  it('is reported twice a second while commands are answered', async () => {
    const { clock, told, loseInbox } = await start();
    await loseInbox();
    await clock.advance(499);
    expect(told).toEqual([]);
    await clock.advance(1);
    expect(told).toHaveLength(1);
    await clock.advance(2_000);
    expect(told).toHaveLength(5);
  });

  it('is reported as soon as commands are answered again, if they were not at first', async () => {
    const { clock, commands, told, loseInbox } = await start();
    const { info } = commands;
    let admit!: () => void;
    commands.info = (section) => new Promise((resolve) => (admit = () => resolve(info(section))));
    commands.disconnect(true);
    await loseInbox();
    await clock.advance(600);
    admit();
    await clock.advance(399);
    expect(told).toEqual([]);
    await clock.advance(1);
    expect(told).toHaveLength(1);
  });
});

describe('a server that is asked whether it is still the same', () => {
  it('and answers when the connection already leads to another one is no reason to leave that one', async () => {
    const { clock, commands, connections, server } = await start();
    const { info } = commands;
    let answer!: (text: string) => void;
    commands.info = () => new Promise((resolve) => (answer = resolve));
    await clock.advance(PING_EVERY_MS);
    expect(answer).toBeDefined();
    commands.info = info;
    server.runId = 'b';
    commands.disconnect(true);
    await settled();
    expect([commands.made, connections.isReady]).toEqual([2, true]);
    answer('role:master\nrun_id:a');
    await settled();
    expect(commands.made).toBe(2);
  });

  it('is left if another one has taken its place', async () => {
    const { clock, commands, server } = await start();
    server.runId = 'b';
    await clock.advance(PING_EVERY_MS);
    expect(commands.made).toBe(2);
  });
});
