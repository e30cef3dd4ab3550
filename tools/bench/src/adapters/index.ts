import type { Adapter } from './adapter.js';
import { inStrictOrder, nestjsLocked, withLinger, withoutAwaitedRelease } from './nestjs-locked.js';
import { PEERS } from './peers.js';
import { QUORUMS } from './quorums.js';
import { rawFloor } from './raw-floor.js';

export const ADAPTERS: readonly Adapter[] = [
  rawFloor,
  ...PEERS,
  nestjsLocked,
  withoutAwaitedRelease,
  withLinger,
  inStrictOrder,
  ...QUORUMS,
];

/** @throws Error if there is none with this id */
export function adapterOf(id: string): Adapter {
  const found = ADAPTERS.find((adapter) => adapter.id === id);
  if (found === undefined) throw new Error(`There is no adapter '${id}'`);
  return found;
}
