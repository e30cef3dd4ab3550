import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { type ContractStores, lockStoreContract } from '../support/lock-store-contract.js';
import { openQuorumStore, useQuorum } from '../support/own-quorum.js';
import { PERMIT_RULES } from '../support/permit-rules.js';
import { READER_RULES } from '../support/reader-rules.js';

/** A node votes for one holder, so `mode: 'shared'` and `permits` are refused before anything is sent. */
const OF_SEVERAL_HOLDERS = [...Object.keys(READER_RULES), ...Object.keys(PERMIT_RULES)];

/** What else of the contract does not apply to a quorum, and why. */
const NOT_HERE: Readonly<Record<string, string>> = {
  'a reader passes the first in the queue only if that one has stopped': 'needs readers',
  'adopt() gives no lease that readers share': 'needs readers',
  'a lease is never shortened by asking again':
    'renews a waiter in the moment of a hand-over, of which there is none',
  'the next in the queue is told when a short lease ahead of it ends':
    'no lease is handed over, so none is short; who is next is told when it may try',
  'release() gives the lock to the first live waiter, however many dead ones are ahead of it':
    'the second in line is not told; `order.spec` has the rest of the rule',
  'a position in the queue is not reclaimed after a lease has lapsed: it may have been used':
    'a position is advice, and is always kept: it only says who may try first',
};

describe.each([3, 5])('QuorumLockStore on %i servers', (size) => {
  let stores: ContractStores;
  afterAll(() => Promise.all([stores.a.store.close(), stores.b.store.close()]));
  const quorum = useQuorum(size);

  beforeAll(async () => {
    const open = () => openQuorumStore(quorum.urls);
    stores = { a: await open(), b: await open() };
  });

  const applies = lockStoreContract.filter(
    ({ title }) => !OF_SEVERAL_HOLDERS.includes(title) && !(title in NOT_HERE),
  );

  it.each(applies)('$title [G49]', async ({ run }) => run(stores, randomUUID()));

  it('leaves out only rules that there are', () => {
    const left = [...OF_SEVERAL_HOLDERS, ...Object.keys(NOT_HERE)];
    expect(left.length + applies.length).toBe(lockStoreContract.length);
  });
});
