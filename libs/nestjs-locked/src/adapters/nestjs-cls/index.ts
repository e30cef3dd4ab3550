export { lockAware, type LockAwareOptions } from './lock-aware.js';
