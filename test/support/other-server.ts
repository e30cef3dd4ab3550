import { jest } from '@jest/globals';
import { Redis } from 'ioredis';
import { afterTest } from './after-test.js';

/** The script as it runs on a server whose TIME answers zero in scripts, as Dragonfly's did. */
export function withoutTime(lua: string): string {
  return replaced(lua, "redis.call('TIME')", "({ '0', '0' })");
}

/**
 * The script as it runs in a cluster whose PUBLISH is in truth SPUBLISH, and that checks what slots a script uses, as
 * some managed ones do.
 */
export function withShardedPublish(lua: string): string {
  return `#!lua\n${replaced(lua, "'PUBLISH'", "'SPUBLISH'")}`;
}

/**
 * For the rest of this test, every server runs scripts as another kind of server would. They are sent whole, because no
 * server knows them by their hash.
 */
export function runScriptsAs(change: (lua: string) => string): void {
  const { eval: send } = Redis.prototype as unknown as {
    eval: (this: Redis, lua: string, ...rest: unknown[]) => unknown;
  };
  const unknown = jest.spyOn(Redis.prototype, 'evalsha');
  unknown.mockImplementation(() => Promise.reject(new Error('NOSCRIPT')));
  const whole = jest.spyOn(Redis.prototype, 'eval');
  whole.mockImplementation(function (this: Redis, lua: string, ...rest: unknown[]) {
    return send.call(this, change(lua), ...rest);
  } as never);
  afterTest(() => {
    unknown.mockRestore();
    whole.mockRestore();
  });
}

function replaced(lua: string, what: string, by: string): string {
  const changed = lua.replaceAll(what, by);
  if (changed === lua) throw new Error(`This script has no ${what}`);
  return changed;
}
