import { describe, expect, it } from '@jest/globals';
import { startScripted } from '../support/scripted-engine.js';

describe('the answer to a renewal that comes when its lease lingers unused', () => {
  const answered = async (waiters: number) => {
    const { clock, store, held, nothingLeft } = await startScripted({ lingerMs: 20_000 });
    const { hold, token } = await held();
    await clock.advance(10_000);
    const renewal = await store.next('renew');
    expect(await hold.release()).toBe(true);
    renewal.reply({ kind: 'renewed', blockEnd: 2_000_000, waiters });
    return { clock, store, token, nothingLeft };
  };

  it('says that another process waits: the lease is given up at once', async () => {
    const { store, token, nothingLeft } = await answered(1);
    const release = await store.next('release');
    expect(release.command.token).toBe(token);
    release.reply({ kind: 'released' });
    await nothingLeft();
  });

  it('says that nobody waits: the lease is kept until its time is over', async () => {
    const { clock, store, token, nothingLeft } = await answered(0);
    await clock.advance(19_999);
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(1);
    const release = await store.next('release');
    expect(release.command.token).toBe(token);
    release.reply({ kind: 'released' });
    await nothingLeft();
  });
});
