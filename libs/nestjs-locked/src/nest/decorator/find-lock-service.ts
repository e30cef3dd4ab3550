import type { ModuleRef } from '@nestjs/core';
import { lockServiceProperty, lockServiceToken } from './lock-service.token.js';

/**
 * What any module provides as the lock service of this name, perhaps a mock.
 * @returns undefined if there is none @throws LockConfigError if the name is an empty string
 */
export function findLockService(modules: ModuleRef, name: string | undefined): unknown {
  const token = lockServiceToken(name);
  try {
    return modules.get(token, { strict: false });
  } catch {
    return undefined; // what Nest says names neither the options nor the way out
  }
}

/** Why there is none, and what to do. */
export function noLockModule(name: string | undefined): string {
  const which = name === undefined ? 'without a name' : `with the name '${name}'`;
  return `there is no lock module ${which}; use ${lockServiceProperty(name).description}`;
}
