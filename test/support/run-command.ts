import { execFile } from 'node:child_process';

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end; its failure is a result, not an error. Jest's own NODE_OPTIONS are not passed on. */
export function runCommand(
  program: string,
  args: readonly string[],
  cwd: string,
  env: Record<string, string> = {},
): Promise<CommandResult> {
  const inherited = { ...process.env };
  delete inherited['NODE_OPTIONS'];
  return new Promise((resolve) => {
    execFile(
      program,
      args,
      { cwd, env: { ...inherited, ...env }, timeout: 120_000, maxBuffer: 1e8 },
      (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }),
    );
  });
}
