import { distinctKeys, heldLocks } from './many-locks.js';
import { memory } from './memory.js';
import { handOver, oneProcess, processes, scaling, workInside } from './one-key.js';
import { permits, segments } from './permits.js';
import { quorum } from './quorum.js';
import type { Scenario } from './scenario.js';
import { transactions } from './transactions.js';
import { waiters } from './waiters.js';
import { forms, linger, manyKeys, ownKeys, sequence, serverCpu } from './without-contention.js';

export const SCENARIOS: readonly Scenario[] = [
  sequence,
  manyKeys,
  ...ownKeys,
  serverCpu,
  linger,
  forms,
  oneProcess,
  processes,
  workInside,
  handOver,
  permits,
  segments,
  quorum,
  scaling,
  heldLocks,
  waiters,
  distinctKeys,
  memory,
  transactions,
];
