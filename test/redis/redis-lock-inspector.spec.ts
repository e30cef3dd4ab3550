import { expect, it } from '@jest/globals';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { newProcessId } from '../../libs/nestjs-locked/src/core/store/lease-token.js';
import type {
  CommandRunner,
  LockServers,
} from '../../libs/nestjs-locked/src/redis/connection/lock-servers.js';
import { RedisLockInspector } from '../../libs/nestjs-locked/src/redis/redis-lock-inspector.js';
import { LockScripts } from '../../libs/nestjs-locked/src/redis/scripts/lock-scripts.js';
import { RedisKeys } from '../../libs/nestjs-locked/src/redis/scripts/redis-keys.js';
import { FENCE_KEEP_MS } from '../../libs/nestjs-locked/src/redis/store-defaults.js';
import { FakeClock } from '../support/fake-clock.js';

/** Two masters of a cluster: one has the lock, the other one the entry of the process that holds it. */
function startInspector({
  isEntryAway = false,
  isEntrySilent = false,
  isReady = true,
  entry = '{"host":"here","pid":7}',
} = {}) {
  const holder = newProcessId();
  const clock = new FakeClock();
  const keys = new RedisKeys('lock:');
  const run: CommandRunner['run'] = async ({ redisKey }, read) => {
    const isEntry = redisKey === keys.processOf(holder);
    if (isEntry && isEntrySilent) return new Promise<never>(() => {});
    if (isEntry && isEntryAway)
      return read({ kind: 'failed', cause: new LockStoreError('it is away'), neverRan: true });
    const reply = isEntry ? entry : [`${holder}:1`, 500, 0, 0, []];
    return read({ kind: 'answered', reply, mayHaveRunBefore: false });
  };
  const inspector = new RedisLockInspector({
    servers: { run, isReady } as LockServers,
    clock,
    keys,
    scripts: new LockScripts({
      inCluster: true,
      inboxPrefix: keys.inboxPrefix,
      acceptMs: 1_000,
      fenceKeepMs: FENCE_KEEP_MS,
    }),
    processId: newProcessId(),
    connectionPrefix: '',
  });
  return { inspector, holder, clock };
}

it('the inspector says who holds a lock', async () => {
  const { inspector, holder } = startInspector();
  expect(await inspector.inspect('a')).toMatchObject({
    value: `${holder}:1`,
    holders: [{ token: `${holder}:1`, process: { host: 'here', pid: 7 } }],
  });
});

it('the inspector says what it knows of a lock while the master that knows more about its holder is away', async () => {
  const { inspector, holder } = startInspector({ isEntryAway: true });
  expect(await inspector.inspect('a')).toMatchObject({
    value: `${holder}:1`,
    remainingMs: 500,
    holders: [{ process: undefined }],
  });
});

it.each([
  '',
  'null',
  '{',
  '[]',
  '{"host":"a\u0007"}',
  '{"host":1,"pid":1}',
  '{"host":"a","pid":"7"}',
])(
  'the inspector says what it knows of a lock whose process has no entry but %j',
  async (entry) => {
    const { inspector, holder } = startInspector({ entry });
    expect(await inspector.inspect('a')).toMatchObject({
      value: `${holder}:1`,
      holders: [{ process: undefined }],
    });
  },
);

it.each([
  { isReady: true, limitMs: 1_000, what: 'does not answer' },
  { isReady: false, limitMs: 100, what: 'is known to be away' },
])(
  'the inspector waits $limitMs ms for a master that knows more and $what',
  async ({ isReady, limitMs }) => {
    const { inspector, holder, clock } = startInspector({ isEntrySilent: true, isReady });
    const answers: unknown[] = [];
    void inspector.inspect('a').then((answer) => answers.push(answer));
    await clock.advance(limitMs - 1);
    expect(answers).toEqual([]);
    await clock.advance(1);
    expect(answers).toMatchObject([{ value: `${holder}:1`, holders: [{ process: undefined }] }]);
  },
);
