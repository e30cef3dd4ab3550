import { createRequire } from 'node:module';
import { join } from 'node:path';
import { LockConfigError } from '../../core/lock.errors.js';

/** From where ioredis may be found: this library, the program, and the current folder. A bundler may take the first. */
const PLACES: readonly (() => string | undefined)[] = [
  () => import.meta.url,
  () => process.argv[1],
  () => join(process.cwd(), 'program.js'),
];

/**
 * The file of ioredis, for the worker thread, which loads it by itself.
 * @throws LockConfigError if there is none, because it is part of a bundle
 */
export function ioredisFile(): string {
  for (const place of PLACES) {
    try {
      return createRequire(place() as string).resolve('ioredis');
    } catch {
      // It is not found from there, or there is no such place.
    }
  }
  throw new LockConfigError(
    "renewFrom: 'worker' needs the package ioredis, which its worker thread loads by itself, and which cannot be found; if it is part of a bundle, declare it external and install it beside the bundle, or use renewFrom: 'main'",
  );
}
