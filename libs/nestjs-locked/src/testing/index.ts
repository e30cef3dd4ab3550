export { InMemoryLocks } from '../core/in-memory-lock-store.js';
export { inMemoryLockService } from './in-memory-lock-service.js';
export { LockTestingModule } from './lock-testing.module.js';
export type { LockTestingModuleOptions } from './lock-testing.module.js';
export { withTestLocks } from './with-test-locks.js';
export { lockStoreContract } from './lock-store-contract.js';
export type { ContractCase, ContractStore, ContractStores } from './lock-store-contract.js';
export type { InboxMessage, LockStore, StoreListener } from '../core/lock-store.js';
