/**
 * Locks in memory for tests, and the contract that every store has to keep.
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
export { lockStoreContract } from './lock-store-contract.js';
export type { ContractCase, ContractStore, ContractStores } from './lock-store-contract.js';
// The types that a custom store needs.
export type { LockDirectory, LockRecord } from '../core/store/lock-directory.js';
export type {
  AcquireCommand,
  AcquireReply,
  InboxMessage,
  LeaveCommand,
  LeaveReply,
  LockStore,
  RecheckCommand,
  RecheckReply,
  ReleaseCommand,
  ReleaseReply,
  RenewCommand,
  RenewReply,
  RequeueCommand,
  RequeueReply,
  StoreListener,
} from '../core/store/lock-store.js';
