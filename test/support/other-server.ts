import { jest } from '@jest/globals';
import { Redis } from 'ioredis';
import { afterTest } from './after-test.js';

/** Changes a script so that TIME returns zero, as in scripts on earlier versions of Dragonfly. */
export function withoutTime(lua: string): string {
  return replaced(lua, "redis.call('TIME')", "({ '0', '0' })");
}

/**
 * Changes a script to run as in a managed cluster that executes PUBLISH as SPUBLISH and checks the slots of a script's
 * keys.
 */
export function withShardedPublish(lua: string): string {
  return `#!lua\n${replaced(lua, "'PUBLISH'", "'SPUBLISH'")}`;
}

/**
 * For the rest of this test, changes every script before it is sent, so that servers behave like another kind of
 * server. Scripts are sent in full, because no server knows the hash of a changed script.
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
