import { BEGINNING } from '../../../simulate/dist/world/virtual-node.js';

/** Fencing numbers begin with the date in microseconds, which is left out. */
export function shortFence(fence: number): number {
  return fence - BEGINNING * 1000;
}
