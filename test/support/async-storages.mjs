/**
 * Every `AsyncLocalStorage` that was ever used costs something for every promise of the process: with a hundred of
 * them, Node 20 is two hundred times slower. Each spec file loads Nest and the library anew, with storages of their
 * own, and jest runs many files in one process. So those that a file has used are switched off when it ends.
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

/** A storage that is used again afterwards is switched on by that. */
export function switchOffAsyncStorages() {
  for (const storage of used) storage.disable();
  used.clear();
}
