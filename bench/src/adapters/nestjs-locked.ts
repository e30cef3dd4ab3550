import type { LockServiceOptions } from 'nestjs-locked';
import { type Adapter, holdBy, type OpenLocks } from './adapter.js';

const DEFAULT = '`acquire` and `release` of the `LockService` of a Nest application, ';

/** The peers wait without limit; ours waits longer than any round. */
const WAIT_MS = 120_000;

export const nestjsLocked = ours('ours', 'nestjs-locked', {
  settings: `${DEFAULT}with the defaults, but a \`waitMs\` longer than any round.`,
});

export const withLinger = ours('ours-linger', 'nestjs-locked, lingerMs: 50', {
  settings: `${DEFAULT}with \`lingerMs: 50\`: an unused lease is kept for 50 ms.`,
  options: { lingerMs: 50 },
});

export const inStrictOrder = ours('ours-strict', 'nestjs-locked, localHandovers: 0', {
  settings: `${DEFAULT}with \`localHandovers: 0\`: strict order of arrival across processes.`,
  options: { localHandovers: 0 },
});

export const withoutAwaitedRelease = ours('ours-no-await', 'nestjs-locked, awaitRelease: false', {
  settings:
    '`withLock` of the `LockService` of a Nest application, with `awaitRelease: false`: a call does not wait for ' +
    'the answer to its release. The option does not apply to `acquire` and `release`.',
  options: { awaitRelease: false },
  form: 'withLock',
});

interface Variant {
  readonly settings: string;
  readonly options?: LockServiceOptions;
  readonly form?: 'acquire' | 'withLock';
}

function ours(
  id: string,
  name: string,
  { settings, options = {}, form = 'acquire' }: Variant,
): Adapter {
  return { id, name, kind: 'ours', settings, open: (url) => openLocks(url, options, form) };
}

async function openLocks(
  url: string,
  options: LockServiceOptions,
  form: 'acquire' | 'withLock',
): Promise<OpenLocks> {
  const { NestFactory } = await import('@nestjs/core');
  const { LockService, RedisLockModule } = await import('nestjs-locked');
  const application = await NestFactory.createApplicationContext(
    RedisLockModule.forRoot({ connection: url, waitMs: WAIT_MS, ...options }),
    { logger: ['warn', 'error'], abortOnError: false },
  );
  application.enableShutdownHooks();
  const locks = application.get(LockService);
  const hold = holdBy(async (key) => {
    const lock = await locks.acquire(key);
    return () => lock.release();
  });
  return {
    hold: form === 'acquire' ? hold : (key, work) => locks.withLock(key, work),
    close: () => application.close(),
  };
}
