/** Tries to kill a mutant: by its specs, by torture and by simulation, which no runner of a mutation tool knows. */
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { clearTimeout, setTimeout } from 'node:timers';

/** A script of Lua, or a module, that cannot be read at all would be killed by anything: it says nothing. */
const BROKEN = /Error compiling script|SyntaxError|user_script:\d+: .*(expected|unexpected)/i;

/** What runs for longer has met a mutant that goes round in circles. All specs of a mutant take less than a minute. */
const LIMIT_MS = 150_000;

/** The histories of a simulation take less than a minute, and some on a busy machine. */
const SIMULATION_LIMIT_MS = 400_000;

/** No test takes half of it: those of the core have a clock that they move themselves. */
const TEST_LIMIT_MS = 45_000;
const CORE_TEST_LIMIT_MS = 30_000;

/** @typedef {{ killed: boolean, hung: boolean, by: string, output: string }} Outcome */

/** Runs spec files in the copy. @returns {Promise<Outcome>} */
export async function runSpecs(copy, specs) {
  const jest = createRequire(join(copy.folder, 'package.json')).resolve('jest/bin/jest');
  const args = ['--disable-warning=ExperimentalWarning', '--experimental-vm-modules', jest];
  // As soon as one test fails the mutant is dead. A test that takes so long waits for what never comes.
  const isCore = specs.every((spec) => spec.startsWith('test/core/'));
  const limitMs = isCore ? CORE_TEST_LIMIT_MS : TEST_LIMIT_MS;
  const options = ['--bail', '--maxWorkers=2', `--testTimeout=${limitMs}`];
  const result = await run(copy, [...args, ...options, ...specs]);
  const failed = /● (.+)\n/.exec(result.output)?.[1];
  return { ...result, by: result.hung ? 'does not end any more' : (failed ?? specs.join(' ')) };
}

/** Runs the torture program in the copy. @returns {Promise<Outcome>} */
export async function runTorture(copy, args, seed) {
  const words = [...args.split(' '), '--seed', String(seed)];
  const result = await run(copy, ['tools/torture/dist/main.js', ...words]);
  const violation = /VIOLATION of (.+)/.exec(result.output)?.[1];
  if (result.killed && violation === undefined) {
    throw new Error(`torture ended without a verdict:\n${tail(result.output)}`);
  }
  return { ...result, by: `torture ${words.join(' ')}: ${violation}` };
}

/** Plays histories in the copy, from the first seed on. @returns {Promise<Outcome>} */
export async function runSimulation(copy, histories) {
  const args = ['tools/simulate/dist/main.js', '--histories', String(histories)];
  const result = await run(copy, args, SIMULATION_LIMIT_MS);
  const found = /^seed \d+: .+/m.exec(result.output)?.[0];
  const by = result.hung ? 'the simulation does not end' : (found ?? tail(result.output));
  return { ...result, by };
}

/** Runs node in the copy; what it started ends with it. */
async function run(copy, args, limitMs = LIMIT_MS) {
  const child = spawn(process.execPath, args, {
    cwd: copy.folder,
    detached: true,
    env: { ...process.env, TEST_FAIL_FAST: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const end = () => {
    try {
      process.kill(-child.pid, 'SIGKILL');
    } catch (error) {
      if (error.code !== 'ESRCH') throw error; // all of them have ended
    }
  };
  process.prependOnceListener('exit', end); // before the copy is removed
  let hung = false;
  const limit = setTimeout(() => {
    hung = true;
    end();
  }, limitMs);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data) => (output += data));
  }
  const code = await new Promise((resolve) => child.on('close', resolve));
  clearTimeout(limit);
  process.off('exit', end);
  end(); // a worker of Jest whose mutant goes round in circles outlives Jest
  if (BROKEN.test(output)) throw new Error(`the mutant is no program any more:\n${tail(output)}`);
  return { killed: code !== 0, hung, output };
}

export function tail(output) {
  return output.trim().split('\n').slice(-25).join('\n');
}
