import { readFileSync } from 'node:fs';

/**
 * Whether the process with this id still runs. A process that has ended does not, even while its entry waits for its
 * parent to fetch the exit code. In a container without an init, that can be for ever.
 */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  return process.platform !== 'linux' || !hasEnded(pid);
}

/** On Linux, the state letter follows the program's name in parentheses. Processes in the states Z and X have ended. */
function hasEnded(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return /^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
  } catch {
    return true;
  }
}
