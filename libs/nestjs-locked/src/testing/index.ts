export { InMemoryLocks } from '../core/in-memory-lock-store.js';
export { inMemoryLockService } from './in-memory-lock-service.js';
export { LockTestingModule } from './lock-testing.module.js';
export type { LockTestingModuleOptions } from './lock-testing.module.js';
export { withTestLocks } from './with-test-locks.js';
