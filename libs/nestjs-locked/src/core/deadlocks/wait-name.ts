import type { LockWait } from '../lock-info.js';

/** Names a wait among those of all processes. */
export function waitName({ processId, id }: LockWait): string {
  return `${processId} ${id}`;
}
