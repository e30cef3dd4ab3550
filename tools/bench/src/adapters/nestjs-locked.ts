import type { LockServiceOptions } from 'nestjs-locked';
import { type Adapter, holdBy, type OpenLocks, PERMITS, SEGMENTS } from './adapter.js';
import { openLockService } from './lock-service.js';

/** The peers wait without limit; ours waits longer than any round. */
const WAIT_MS = 120_000;

export const nestjsLocked = ours('ours', 'nestjs-locked', {
  settings:
    '`acquire` and `release` of `LockService`, the defaults, `waitMs` longer than any round.',
});

export const withLinger = ours('ours-linger', 'nestjs-locked, lingerMs: 50', {
  settings: 'An unused lease is kept for 50 ms.',
  options: { lingerMs: 50 },
});

export const inStrictOrder = ours('ours-strict', 'nestjs-locked, localHandovers: 0', {
  settings: 'Strict order of arrival across processes.',
  options: { localHandovers: 0 },
});

export const withoutAwaitedRelease = ours('ours-no-await', 'nestjs-locked, awaitRelease: false', {
  settings: '`withLock` with `awaitRelease: false`, which `acquire` and `release` do not have.',
  options: { awaitRelease: false },
  form: 'withLock',
});

/** The three ways to hold a lock of ours, and two with which several hold a key. */
export type Form = 'acquire' | 'withLock' | 'locked' | 'permits' | 'segments';

interface Variant {
  readonly settings: string;
  readonly options?: LockServiceOptions;
  readonly form?: Form;
}

function ours(
  id: string,
  name: string,
  { settings, options = {}, form = 'acquire' }: Variant,
): Adapter {
  return { id, name, kind: 'ours', settings, open: (url) => openLocks(url, options, form) };
}

async function openLocks(url: string, options: LockServiceOptions, form: Form): Promise<OpenLocks> {
  const service = await openLockService(url, { waitMs: WAIT_MS, ...options });
  const forms: Record<Form, OpenLocks['hold']> = {
    acquire: holdBy(async (key) => {
      const lock = await service.locks.acquire(key);
      return () => lock.release();
    }),
    withLock: (key, work) => service.locks.withLock(key, work),
    locked: (key, work) => service.locked(key, work),
    permits: (key, work) => service.locks.withLock(key, { permits: PERMITS }, work),
    segments: (key, work) => service.locks.withLock(key, { permits: SEGMENTS }, work),
  };
  return { hold: forms[form], forms, close: () => service.close() };
}
