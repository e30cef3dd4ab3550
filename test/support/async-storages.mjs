/**
 * Each `AsyncLocalStorage` that has been used makes every promise of the process slower: with a hundred of them, Node
 * 20 is two hundred times slower. Every spec file loads its own copies of Nest and the library, with their own
 * storages, and jest runs many files in one process. The storages that a file has used are therefore disabled when it
 * ends.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

/** @type {Set<AsyncLocalStorage<unknown>>} */
const used = new Set();

for (const method of /** @type {const} */ (['run', 'enterWith'])) {
  const original = AsyncLocalStorage.prototype[method];
  AsyncLocalStorage.prototype[method] = /** @this {AsyncLocalStorage<unknown>} */ function (
    /** @type {any[]} */ ...args
  ) {
    used.add(this);
    return Reflect.apply(original, this, args);
  };
}

/** Disables the storages used so far. A storage that is used again is enabled again. */
export function switchOffAsyncStorages() {
  for (const storage of used) storage.disable();
  used.clear();
}
