/**
 * Breaks the engine and its scripts on purpose, one line at a time, and asks whether anything notices. Stryker cannot:
 * it does not change the Lua, knows no rules to break, and runs no torture.
 *
 *     npm run mutants
 *     npm run mutants -- --only renew         those with this text in their rule or change; may be repeated
 *     npm run mutants -- --file core/lease    those of files whose path contains `core/lease`; may be repeated
 *     npm run mutants -- --shard 2/3          the second third of them
 *     npm run mutants -- --torture            by torture alone, where it is to see them
 *     npm run mutants -- --specs              by specs alone
 *     npm run mutants -- --simulate 150       those of engine and scripts, by 150 simulated histories alone
 *     npm run mutants -- --check              only whether the table fits the source
 *
 * Each mutant of the table (README.md) is applied to a built copy of the tree, never to the tree itself. The specs that
 * it names are run, then its torture commands with up to three seeds. First all of these must pass without any mutant
 * (`--no-baseline` leaves that out). Survivors are listed; the exit code is 0 only if there are none.
 */
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { choose } from './choose.mjs';
import { misfits } from './fit.mjs';
import { runSimulation, runSpecs, runTorture, tail } from './kill.mjs';
import { readTable } from './table.mjs';
import { TreeCopy } from './tree-copy.mjs';
import { usesPackage } from './uses-package.mjs';

const SEEDS = [1, 2, 3];
const root = fileURLToPath(new URL('../..', import.meta.url));

const { values: options } = parseArgs({
  allowNegative: true,
  options: {
    only: { type: 'string', multiple: true, default: [] },
    file: { type: 'string', multiple: true, default: [] },
    shard: { type: 'string', default: '1/1' },
    torture: { type: 'boolean', default: false },
    specs: { type: 'boolean', default: false },
    simulate: { type: 'string', default: '0' },
    check: { type: 'boolean', default: false },
    baseline: { type: 'boolean', default: true },
  },
});
const chosen = choose(readTable(), options);
const histories = Number(options.simulate);

let copy;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1));
process.on('exit', () => copy?.remove());

process.exitCode = await main();

async function main() {
  if (chosen.length === 0) {
    console.log('no mutant is chosen');
    return 2;
  }
  const errors = misfits(root, chosen);
  for (const message of errors) console.log(message);
  if (errors.length > 0) return 1;
  if (options.check) {
    console.log(`${chosen.length} mutants fit the source`);
    return 0;
  }
  copy = TreeCopy.make(root);
  if (options.baseline && !(await passesWithoutMutants())) return 1;
  const survivors = [];
  for (const mutant of chosen) {
    const startedAt = performance.now();
    const outcome = await hunt(mutant);
    const seconds = ((performance.now() - startedAt) / 1_000).toFixed(0);
    console.log(`${outcome.killed ? 'killed  ' : 'SURVIVED'} ${mutant.change} (${seconds} s)`);
    console.log(`         ${outcome.killed ? outcome.by : mutant.rule}`);
    if (!outcome.killed) survivors.push(mutant);
  }
  console.log(
    `${chosen.length - survivors.length} killed, ${survivors.length} survived${survivors.map(({ change }) => `\n  ${change}`).join('')}`,
  );
  return survivors.length === 0 ? 0 : 1;
}

/** What fails anyway cannot tell a mutant from the original. */
async function passesWithoutMutants() {
  if (histories > 0) {
    const { killed, by } = await runSimulation(copy, histories);
    if (killed) console.log(`without any mutant the simulation finds something already: ${by}`);
    return !killed;
  }
  const specs = options.torture ? [] : unique(chosen.flatMap((mutant) => mutant.specs));
  if (specs.length > 0) {
    const { killed, output } = await runSpecs(copy, specs);
    if (killed) {
      console.log(`without any mutant the specs fail already:\n${tail(output)}`);
      return false;
    }
  }
  const needed = options.torture ? chosen : chosen.filter(({ specs }) => specs.length === 0);
  for (const args of unique(needed.flatMap((mutant) => mutant.torture))) {
    for (const seed of SEEDS) {
      const { killed, by } = await runTorture(copy, args, seed);
      if (!killed) continue;
      console.log(`without any mutant torture finds something already: ${by}`);
      return false;
    }
  }
  console.log('without any mutant everything passes');
  return true;
}

/** Runs what is to kill the mutant, until something does. */
async function hunt(mutant) {
  const { specs, torture } = mutant;
  copy.apply(mutant);
  try {
    if (histories > 0) return await runSimulation(copy, histories);
    if (specs.length > 0 && !options.torture) {
      if (usesPackage(root, specs)) copy.bundle();
      const outcome = await runSpecs(copy, specs);
      if (outcome.killed) return outcome;
    }
    if (torture.length > 0 && !options.specs) copy.bundle();
    for (const seed of options.specs ? [] : SEEDS) {
      for (const args of torture) {
        const outcome = await runTorture(copy, args, seed);
        if (outcome.killed) return outcome;
      }
    }
    return { killed: false };
  } finally {
    copy.restore(mutant);
  }
}

function unique(values) {
  return [...new Set(values)];
}
