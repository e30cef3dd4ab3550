import { distinctKeys } from './distinct-keys.js';
import { forms } from './forms.js';
import { heldLocks } from './held-locks.js';
import { linger } from './linger.js';
import { manyKeys } from './many-keys.js';
import { oneProcess } from './one-process.js';
import { processes } from './processes.js';
import { scaling } from './scaling.js';
import type { Scenario } from './scenario.js';
import { sequence } from './sequence.js';
import { serverCpu } from './server-cpu.js';
import { transactions } from './transactions.js';
import { waiters } from './waiters.js';
import { workInside } from './work-inside.js';

export const SCENARIOS: readonly Scenario[] = [
  sequence,
  manyKeys,
  serverCpu,
  linger,
  forms,
  oneProcess,
  processes,
  workInside,
  scaling,
  heldLocks,
  waiters,
  distinctKeys,
  transactions,
];
