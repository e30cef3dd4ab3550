import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Outcome } from './scenario.js';

/** The name of our own side. */
export const OURS = 'nestjs-locked';

const PROGRAM = fileURLToPath(new URL('./side-process.js', import.meta.url));

/** A process that dies and a process that hangs have an outcome, too. */
export async function runSide(name: string, library: string, limitMs: number): Promise<Outcome> {
  const child = fork(PROGRAM, [name, library], {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    execArgv: ['--disable-warning=ExperimentalWarning'],
  });
  let outcome: Outcome | undefined;
  let errors = '';
  let isLate = false;
  child.on('message', (message) => (outcome = message as Outcome));
  child.stderr?.on('data', (data: Buffer) => (errors += data.toString()));
  const late = setTimeout(() => {
    isLate = true;
    child.kill('SIGKILL');
  }, limitMs);
  const [code] = (await once(child, 'close')) as [number | null];
  clearTimeout(late);
  if (outcome !== undefined) return outcome;
  if (isLate) {
    const limit = `${limitMs / 1_000} s`;
    return { holds: false, figure: 'hangs', words: `There was no answer within ${limit}.` };
  }
  return {
    holds: false,
    figure: `exit code ${code}`,
    words: `The process died: ${errorLine(errors)}`,
  };
}

/** The line that names the error which ended a process. */
function errorLine(errors: string): string {
  const line = errors.split('\n').find((text) => /^\s*(\w*Error\b|\[\w*Error)/.test(text));
  return (line ?? errors.trim().split('\n').at(-1) ?? '').trim().slice(0, 300);
}
