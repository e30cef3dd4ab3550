import { lockKey } from 'nestjs-locked';
import { type Instance, migrationScenario } from '../stage/migration.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, type RedisServer } from '../stage/redis.js';

const id = '42';

export const scenario = migrationScenario({
  library: 'redlock',
  settings: '`using` with the defaults and 5 s.',

  async old(server) {
    const redlock = await openRedlock(server);
    return (work) => redlock.using([`stock:${id}`], 5_000, work);
  },

  async both(server) {
    const redlock = await openRedlock(server);
    const locks = await ourLocks(server);
    return (work) =>
      locks.withLock(lockKey`stock:${id}`, () => redlock.using([`stock:${id}`], 5_000, work));
  },

  async after(server) {
    const locks = await ourLocks(server);
    return (work) => locks.withLock(lockKey`stock:${id}`, work);
  },

  async oneKey(server) {
    const redlock = await openRedlock(server);
    const theirs: Instance = (work) => redlock.using([`lock:{stock:${id}}`], 5_000, work);
    return [theirs, await this.after(server)];
  },
});

async function openRedlock(server: RedisServer) {
  const { default: Redlock } = await import('redlock');
  const redlock = new Redlock([(await connect(server)) as never]);
  redlock.on('error', () => {});
  return redlock;
}
