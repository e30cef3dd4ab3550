import { cleanUpAtExit } from 'dev-servers';
import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { ForeignAcquire, ForeignHold, ForeignLocks, ForeignRace } from './foreign-locks.js';

const SCRIPT = fileURLToPath(new URL('./redis_py_locks.py', import.meta.url));

/** Another Python may come first on PATH than the one that gets Debian's packages. */
const PYTHONS = ['python3', '/usr/bin/python3'];

/**
 * A Python that has redis-py. Root on Debian or Ubuntu gets it from apt, after one line on standard error.
 * @returns undefined when there is none and none could be installed
 */
export function findPythonWithRedis(): string | undefined {
  const found = PYTHONS.find(hasRedis);
  if (found !== undefined || process.getuid?.() !== 0 || !succeeds('apt-get', '--version')) {
    return found;
  }
  process.stderr.write('redis-py is not installed: running apt-get install python3-redis\n');
  const install =
    'apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-redis';
  succeeds('env', 'DEBIAN_FRONTEND=noninteractive', 'flock', '/var/lib/dpkg', 'sh', '-c', install);
  return PYTHONS.find(hasRedis);
}

function hasRedis(python: string): boolean {
  return succeeds(python, '-c', 'import redis.lock');
}

function succeeds(program: string, ...args: string[]): boolean {
  try {
    execFileSync(program, args, { stdio: 'ignore', timeout: 300_000 });
    return true;
  } catch {
    return false;
  }
}

interface Call {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** redis-py's Lock, in a Python process of its own. */
export class RedisPy implements ForeignLocks {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #exited: Promise<unknown>;
  readonly #calls = new Map<number, Call>();
  #lastId = 0;

  constructor(python: string, url: string) {
    this.#child = spawn(python, [SCRIPT, url]);
    this.#exited = once(this.#child, 'close');
    const { pid = 0 } = this.#child;
    const cancelCleanUp = cleanUpAtExit({ kind: 'process', pid, signal: 'SIGKILL' });
    let lastWords = '';
    this.#child.stderr.on('data', (chunk: Buffer) => (lastWords += chunk.toString()));
    this.#child.stdin.on('error', () => {}); // 'close' says it with a reason
    this.#child.on('close', () => {
      cancelCleanUp();
      for (const { reject } of this.#calls.values()) {
        reject(new Error(`the Python process has ended. ${lastWords}`));
      }
      this.#calls.clear();
    });
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#read(line));
  }

  async acquire(order: ForeignAcquire): Promise<ForeignHold | undefined> {
    const hold = ++this.#lastId;
    const value = (await this.#call('acquire', { hold, ...order })) as string | null;
    if (value === null) return undefined;
    return {
      value,
      release: async () => (await this.#call('release', { hold })) as boolean,
      extend: async (ms) => (await this.#call('extend', { hold, ms })) as boolean,
    };
  }

  async race(order: ForeignRace): Promise<void> {
    await this.#call('race', order);
  }

  async close(): Promise<void> {
    this.#child.stdin.end();
    await this.#exited;
  }

  #call(command: string, args: object): Promise<unknown> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      this.#child.stdin.write(`${JSON.stringify({ ...args, id, command })}\n`);
    });
  }

  #read(line: string): void {
    const { id, result, error } = JSON.parse(line) as {
      id: number;
      result?: unknown;
      error?: string;
    };
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    if (error === undefined) call?.resolve(result);
    else call?.reject(new Error(error));
  }
}
