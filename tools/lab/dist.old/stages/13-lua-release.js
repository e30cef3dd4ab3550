import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, RETRY_MS } from '../scale.js';
import { lockAround } from './stage.js';
const RELEASE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0`;
export const luaRelease = {
    number: 13,
    name: 'Lua release',
    lesson: 'A script compares and deletes in one step.',
    breaks: 'Right until the work outlives the expiry.',
    traits: ['lock', 'redis', 'expiry'],
    open(tools) {
        const { redis } = tools;
        return lockAround({
            async acquire(key) {
                const owner = randomUUID();
                // Breaks here: to choose the number, one has to know how long the work will take.
                while ((await redis.set(key, owner, 'PX', LEASE_MS, 'NX')) === null) {
                    await sleep(RETRY_MS);
                }
                return owner;
            },
            release: (key, owner) => redis.eval(RELEASE, 1, key, owner),
        }, tools);
    },
};
//# sourceMappingURL=13-lua-release.js.map