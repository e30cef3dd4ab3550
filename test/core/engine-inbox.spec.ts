import { describe, expect, it } from '@jest/globals';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { locksInUse } from '../../libs/nestjs-locked/src/core/calls/transaction-registry.js';
import { settled } from '../support/fake-clock.js';
import { KEY, startScripted } from '../support/scripted-engine.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const PROCESS = 'f'.repeat(32);

describe('a message about a token that nobody here uses', () => {
  const message = (kind: 'grant' | 'wanted', token: string) =>
    kind === 'wanted'
      ? { kind, key: KEY, token }
      : { kind, key: KEY, token, fence: 1, blockEnd: 10, waiters: 0, acceptMs: 1_000 };

  it.each(['grant', 'wanted'] as const)('releases it if it is our own: %s', async (kind) => {
    const { store } = await startScripted();
    const token = `${store.processId}:77`;
    store.listener.message(message(kind, token));
    expect((await store.next('release')).command).toEqual({ key: KEY, token, used: 0 });
  });

  it.each(['grant', 'wanted'] as const)(
    'ignores it if another process has made the token, whose lock a release would take: %s',
    async (kind) => {
      const { store } = await startScripted();
      store.listener.message(message(kind, `${PROCESS}:77`));
      await settled();
      expect(await store.unanswered()).toEqual([]);
    },
  );
});

describe('a closed service', () => {
  it('is no longer asked by transactions', async () => {
    const { engine } = await startScripted();
    expect(locksInUse()).toContain(engine.inTransactions);
    await engine.close(0);
    expect(locksInUse()).not.toContain(engine.inTransactions);
  });

  it('is asked until its last lock is released', async () => {
    const { engine, held, clock } = await startScripted();
    const { hold } = await held();
    const closed = engine.close(100);
    await clock.advance(100);
    await closed;
    expect(locksInUse()).toContain(engine.inTransactions);
    await hold.release();
    expect(locksInUse()).not.toContain(engine.inTransactions);
  });

  it('is not kept in memory by a lock that is never released', async () => {
    const closeWithLock = async (): Promise<WeakRef<object>> => {
      const { engine, held, clock } = await startScripted();
      await held();
      const closed = engine.close(100);
      await clock.advance(100);
      await closed;
      return new WeakRef(engine.inTransactions);
    };
    const before = locksInUse().length;
    const closed = await closeWithLock();
    await settled();
    collectGarbage();
    expect(closed.deref()).toBeUndefined();
    expect(locksInUse()).toHaveLength(before);
  });
});
