/**
 * Locks in memory for tests, and the contract that every store has to keep.
 *
 * @module nestjs-locked/testing
 */
export { InMemoryLocks } from './in-memory-locks.js';
export { inMemoryLockService } from './in-memory-lock-service.js';
export { LockTestingModule } from './lock-testing.module.js';
export type { LockTestingModuleOptions } from './lock-testing.module.js';
export { withTestLocks } from './with-test-locks.js';
export { lockStoreContract } from './lock-store-contract.js';
export type { ContractCase, ContractStore, ContractStores } from './lock-store-contract.js';
// The types that a custom store needs.
export type { CancelTimer, Clock } from '../core/time/clock.js';
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
