import { describe, expect, it } from '@jest/globals';
import { EventEmitter } from 'node:events';
import { attendToSentinels } from '../../libs/nestjs-locked/src/redis/connection/sentinel/sentinel-listeners.js';
import { SentinelQuestions } from '../../libs/nestjs-locked/src/redis/connection/sentinel/sentinel-questions.js';
import { settled } from '../support/fake-clock.js';

/** A connection to a sentinel as ioredis makes it, which fails whatever is asked of it. */
class BrokenSentinel extends EventEmitter {
  readonly options: { autoResubscribe?: boolean } = { autoResubscribe: true };
  readonly subscribed: string[] = [];

  subscribe(channel: string): Promise<unknown> {
    this.subscribed.push(channel);
    return Promise.reject(new Error('Connection is closed.'));
  }
}

function connectionWith(...sentinels: BrokenSentinel[]): EventEmitter {
  const failoverDetector = { sentinels: sentinels.map((client) => ({ client })) };
  const [connectToSentinel, resolve, resolveMaster] = [() => {}, () => {}, () => {}];
  const connector = { failoverDetector, connectToSentinel, resolve, resolveMaster };
  return Object.assign(new EventEmitter(), { connector });
}

describe('attendToSentinels', () => {
  it('subscribes again by itself, and ignores a failure of that and errors', async () => {
    const sentinel = new BrokenSentinel();
    const connection = connectionWith(sentinel);
    attendToSentinels(connection, () => {});
    connection.emit('connect');
    expect(sentinel.options.autoResubscribe).toBe(false);
    sentinel.emit('ready');
    sentinel.emit('error', new Error('connect ECONNREFUSED'));
    await settled(); // a rejection without a handler fails the test
    expect(sentinel.subscribed).toEqual(['+switch-master']);
  });

  it('does not touch a connector of the user, whatever its members are called', () => {
    for (const resolve of [(service: string, role: string) => service + role, { cache: true }]) {
      const given = { resolve, connectToSentinel: 'later', resolveMaster: true };
      const connection = Object.assign(new EventEmitter(), { connector: { ...given } });
      attendToSentinels(connection, () => {});
      new SentinelQuestions(connection, { onError: () => {} }).leave();
      expect(connection.connector).toEqual(given);
    }
  });

  it('does not touch a connection without sentinels', () => {
    for (const connector of [undefined, {}, { failoverDetector: null }, { failoverDetector: {} }]) {
      const connection = Object.assign(new EventEmitter(), { connector });
      attendToSentinels(connection, () => {});
      expect(() => connection.emit('connect')).not.toThrow();
    }
  });
});
