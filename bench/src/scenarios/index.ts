import { manyKeys } from './many-keys.js';
import { oneProcess } from './one-process.js';
import { processes } from './processes.js';
import type { Scenario } from './scenario.js';
import { sequence } from './sequence.js';
import { serverCpu } from './server-cpu.js';

export const SCENARIOS: readonly Scenario[] = [
  sequence,
  manyKeys,
  serverCpu,
  oneProcess,
  processes,
];
