/**
 * Locks in memory for tests.
 *
 * @module nestjs-locked/testing
 */
export { LockTestingModule } from './lock-testing.module.js';
export type { LockTestingModuleOptions } from './lock-testing.module.js';
export { overrideLocks } from './override-locks.js';
export type { OverridableProviders, OverrideLocksOptions } from './override-locks.js';
export type { LockCall, LockOutcome } from './recorded-calls.js';
export { TestLocks } from './test-locks.js';
export type { HoldOptions, OtherHolder, ServiceOfTest } from './test-locks.js';
export { withTestLocks } from './with-test-locks.js';
