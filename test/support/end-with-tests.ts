import { cleanUpAtExit } from 'dev-servers';
import type { ChildProcess } from 'node:child_process';

/** Ends the program with the test process, however that ends. Without an IPC channel, it would not notice. */
export function endWithTests(program: ChildProcess): void {
  if (program.pid === undefined) return;
  program.once('exit', cleanUpAtExit({ kind: 'process', pid: program.pid, signal: 'SIGTERM' }));
}
