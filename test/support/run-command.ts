import { execFile } from 'node:child_process';

/** Building the site takes three minutes on a busy machine, and so does installing a new application. */
const LIMIT_MS = 540_000;

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Environment for third-party programs, which may emit warnings, and for programs that are meant to fail. */
export const UNGUARDED = { NODE_OPTIONS: '' };

/** Runs a program to its end. A failure is a result, not an error. */
export function runCommand(
  program: string,
  args: readonly string[],
  cwd: string,
  env: Record<string, string> = {},
): Promise<CommandResult> {
  return new Promise((resolve) => {
    execFile(
      program,
      args,
      { cwd, env: { ...process.env, ...env }, timeout: LIMIT_MS, maxBuffer: 1e8 },
      (error, stdout, stderr) =>
        resolve({
          code: error === null ? 0 : Number(error.code ?? 1),
          stdout,
          stderr: error?.killed === true ? `${stderr}\nended after ${LIMIT_MS} ms` : stderr,
        }),
    );
  });
}
