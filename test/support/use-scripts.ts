import { Redis } from 'ioredis';
import { afterTest } from './after-test.js';
import { useRedisServer } from './own-redis.js';
import { ScriptBench } from './script-bench.js';
import { granted, queued } from './script-replies.js';
import { uniqueKey } from './unique-key.js';

/** A server for the scripts, and keys in the states in which tests start. Call it where `beforeAll` may be called. */
export function useScripts() {
  const server = useRedisServer();

  /** A key that has not been used. */
  const newBench = (name?: string): ScriptBench => new ScriptBench(server.admin, name);

  /** A key that is held. The holder has renewed its lease, and so has a block of fencing tokens. */
  const heldBench = async (name?: string) => {
    const bench = newBench(name);
    const holder = await bench.peer();
    const token = holder.token();
    const { fence } = granted(await bench.acquire(token), token);
    await bench.renew(token, fence);
    return { bench, holder, token, fence };
  };

  /** A key with a holder and one live waiter. */
  const contendedBench = async (name?: string) => {
    const held = await heldBench(name);
    const waiter = await held.bench.peer();
    const waiting = waiter.token();
    const { score } = queued(await held.bench.acquire(waiting), waiting);
    await held.holder.heard();
    return { ...held, waiter, waiting, score };
  };

  /** Opens another connection to the server. Closed after the test. */
  const connect = (user: { username?: string; password?: string } = {}): Redis => {
    const other = new Redis(server.url, user);
    afterTest(() => other.disconnect());
    return other;
  };

  /** Opens a connection for a user who may access every key and has these additional rights. */
  const connectAs = async (...rights: string[]): Promise<Redis> => {
    const username = uniqueKey('user');
    await server.admin.acl('SETUSER', username, 'on', '>secret', '~*', ...rights);
    return connect({ username, password: 'secret' });
  };

  /** The time of the server's clock, which the scripts read, in microseconds. */
  const serverMicros = async (): Promise<number> => {
    const [seconds, micros] = await server.admin.time();
    return Number(seconds) * 1_000_000 + Number(micros);
  };

  return { newBench, heldBench, contendedBench, connect, connectAs, serverMicros };
}
