/**
 * The process behind `cleanUpAtExit`. It reads tasks from its standard input; when that ends, the
 * process that wrote them is gone, and the tasks that are still open are carried out.
 */
import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CleanUpMessage, CleanUpTask } from './clean-up.js';
import { isAlive } from './is-alive.js';

/** How long a server may take to end on its own before it is killed. */
const GRACE_MS = 3_000;

const open = new Map<number, CleanUpTask>();
for await (const line of createInterface({ input: process.stdin })) {
  const { id, task } = JSON.parse(line) as CleanUpMessage;
  if (task) open.set(id, task);
  else open.delete(id);
}

const tasks = [...open.values()];
const servers = tasks.filter((task) => task.kind === 'process');
const folders = tasks.filter((task) => task.kind === 'folder');
await Promise.all(servers.map(({ pid, signal }) => end(pid, signal)));
for (const { path } of folders) rmSync(path, { recursive: true, force: true, maxRetries: 5 });

async function end(pid: number, signal: NodeJS.Signals): Promise<void> {
  send(pid, signal);
  send(pid, 'SIGCONT');
  const deadline = performance.now() + GRACE_MS;
  while (isAlive(pid) && performance.now() < deadline) await sleep(10);
  send(pid, 'SIGKILL');
  while (isAlive(pid) && performance.now() < deadline + GRACE_MS) await sleep(10);
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended already.
  }
}
