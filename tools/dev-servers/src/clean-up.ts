import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';

/** What has to be removed when this process ends, however it ends. A negative `pid` is a process group. */
export type CleanUpTask =
  | { readonly kind: 'process'; readonly pid: number; readonly signal: NodeJS.Signals }
  | { readonly kind: 'folder'; readonly path: string };

/** One line of what the watcher process reads. */
export type CleanUpMessage =
  | { readonly id: number; readonly task: CleanUpTask }
  | { readonly id: number; readonly task: null; readonly isLast: boolean };

/** Keeps the messages, and hands them to a program unless the last one says that nothing is left to do. */
const WAITING_SHELL = `messages=$(cat)
case $messages in *'"isLast":true}') ;; *) printf '%s\\n' "$messages" | "$0" "$1" ;; esac`;

let nextId = 1;
let openTasks = 0;
let watcher: ChildProcess | undefined;

/**
 * Sees to it that `task` is done as soon as this process no longer exists, whether after a normal end, Ctrl-C, SIGTERM,
 * a crash, or SIGKILL. A detached process waits at a pipe for that moment. Nothing is installed in this process, so its
 * own signal handling stays as it was.
 *
 * @returns a function that cancels the task; calling it twice does nothing. The watcher ends with
 * the last open task.
 */
export function cleanUpAtExit(task: CleanUpTask): () => void {
  const id = nextId++;
  let open = true;
  openTasks += 1;
  send({ id, task });

  return () => {
    if (!open) return;
    open = false;
    openTasks -= 1;
    const isLast = openTasks === 0;
    send({ id, task: null, isLast });
    if (isLast) {
      watcher?.stdin?.end();
      watcher = undefined;
    }
  };
}

function send(message: CleanUpMessage): void {
  watcher ??= startWatcher();
  watcher.stdin?.write(`${JSON.stringify(message)}\n`);
}

function startWatcher(): ChildProcess {
  const env = { ...process.env };
  delete env.NODE_OPTIONS;
  const program = [
    process.execPath,
    fileURLToPath(new URL('./clean-up-process.js', import.meta.url)),
  ] as const;
  // A shell starts in a fiftieth of the time that Node takes, and nearly always there is nothing left to do.
  const [file, ...args] =
    process.platform === 'win32'
      ? program
      : (['/bin/sh', '-c', WAITING_SHELL, ...program] as const);
  const started = spawn(file, args, {
    cwd: '/',
    detached: true,
    env,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  // Without a watcher the servers still work; only the safety net below them is gone.
  started.on('error', () => {});
  started.stdin.on('error', () => {});
  started.unref();
  (started.stdin as Socket).unref();
  return started;
}
