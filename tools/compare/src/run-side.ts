import { ChildProgram } from 'kit';
import { fileURLToPath } from 'node:url';
import type { Outcome } from './scenario.js';

/** The name of our own side. */
export const OURS = 'nestjs-locked';

const PROGRAM = fileURLToPath(new URL('./side-process.js', import.meta.url));

/** A process that dies and a process that hangs have an outcome, too. */
export async function runSide(name: string, library: string, limitMs: number): Promise<Outcome> {
  const side = new ChildProgram<never, Outcome>(PROGRAM, {
    args: [name, library],
    execArgv: ['--disable-warning=ExperimentalWarning'],
    stdout: 'ignore',
    stderr: 'pipe',
  });
  let outcome: Outcome | undefined;
  side.onMessage((message) => (outcome = message));
  const how = await side.endsWithin(limitMs);
  if (outcome !== undefined) return outcome;
  if (how === 'SIGKILL') {
    const limit = `${limitMs / 1_000} s`;
    return { holds: false, figure: 'hangs', words: `There was no answer within ${limit}.` };
  }
  return { holds: false, figure: how, words: `The process died: ${errorLine(side.output)}` };
}

/** The line that names the error which ended a process. */
function errorLine(errors: string): string {
  const line = errors.split('\n').find((text) => /^\s*(\w*Error\b|\[\w*Error)/.test(text));
  return (line ?? errors.trim().split('\n').at(-1) ?? '').trim().slice(0, 300);
}
