import { faketime } from 'dev-servers';
import { cpus } from 'node:os';
import { deviationOf } from './expected.js';
import type { LabOptions } from './options.js';
import { matrixText } from './report/matrix.js';
import { saveRun, writeHistory, writeReport } from './report/write-report.js';
import { Laboratory } from './run/laboratory.js';
import { pairsOf, type Play, playIn, runTrials } from './run/trials.js';

/** @returns whether all results are as the table of expected results says */
export async function runLab(options: LabOptions): Promise<boolean> {
  const pairs = pairsOf(options.stages, options.accidents);
  if (pairs.length === 0) {
    throw new Error('None of these accidents can happen to these stages: see --list');
  }
  if (options.save && faketime === undefined) {
    throw new Error('--save needs libfaketime, without which no clock of a server can step');
  }
  const start = performance.now();
  const say = (text: string): void => {
    console.log(`${((performance.now() - start) / 1_000).toFixed(1).padStart(6)} s  ${text}`);
  };
  say(`${pairs.length} trials, seed ${options.seed}: starting Redis and PostgreSQL`);
  const lab = await Laboratory.open(options.seed);
  const play: Play = async (pair, nth) => {
    const trial = await playIn(lab, pair, nth);
    writeHistory(options.out, trial, nth);
    return trial;
  };
  const trials = await runTrials(pairs, play, options.atOnce, say).finally(() => lab.close());
  console.log(`\n${matrixText(trials)}\n`);
  const deviations = trials.flatMap((trial) => {
    const deviation = deviationOf(trial);
    return deviation === undefined ? [] : [`stage ${trial.stage}, ${trial.accident}: ${deviation}`];
  });
  const facts = {
    seed: options.seed,
    seconds: (performance.now() - start) / 1_000,
    machine: `${cpus().length} cores, Node ${process.versions.node}`,
    date: new Date().toISOString().slice(0, 10),
    deviations,
  };
  const [report] = writeReport(options.out, { trials, facts });
  for (const deviation of deviations) console.log(`DIFFERS: ${deviation}`);
  if (deviations.length === 0) {
    console.log(`All ${trials.length} results are as the table of expected results says.`);
  }
  console.log(`The report with all pictures: ${report}`);
  if (options.save && deviations.length === 0) console.log(saveRun({ trials, facts }).join('\n'));
  return deviations.length === 0;
}
