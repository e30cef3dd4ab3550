import { readArrived } from '../core/runtime/arrived-messages.js';

/** How many turns of the event loop an answer of the store and its consequences may take. */
const TURNS = 3;

/** Resolves when all code that is ready to run has run. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await readArrived();
}
