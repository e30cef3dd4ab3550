import { ChildProgram } from 'kit';
import { fileURLToPath } from 'node:url';

const REPLICA_FILE = fileURLToPath(new URL('../dist/replica.js', import.meta.url));
const STOP_LIMIT_MS = 10_000;

/** Processes of the built application, and which of them leads, as their log says. */
export class Replicas {
  readonly #redisUrl: string;
  readonly #hear: (name: string, line: string) => void;
  readonly #running = new Map<string, ChildProgram>();
  /** The name of the process that leads. */
  leader: string | undefined;

  /** @param hear is given every line that a process prints */
  constructor(redisUrl: string, hear: (name: string, line: string) => void) {
    this.#redisUrl = redisUrl;
    this.#hear = hear;
  }

  start(name: string): void {
    const hear = (line: string): void => {
      if (line.includes('This process leads')) this.leader = name;
      if (line.includes('no longer leads') && this.leader === name) this.leader = undefined;
      this.#hear(name, line);
    };
    const env = { NO_COLOR: '1', REDIS_URL: this.#redisUrl };
    const options = { env, stdout: 'pipe', stderr: 'pipe', hear, endSignal: 'SIGTERM' } as const;
    this.#running.set(name, new ChildProgram(REPLICA_FILE, options));
  }

  /** Ends the process that leads. @returns its name */
  async endLeader(signal: 'SIGKILL' | 'SIGTERM'): Promise<string> {
    const name = this.leader;
    const process = name === undefined ? undefined : this.#running.get(name);
    if (name === undefined || process === undefined) throw new Error('No process leads');
    this.leader = undefined;
    process.signal(signal);
    await process.endsWithin(STOP_LIMIT_MS);
    this.#running.delete(name);
    return name;
  }

  async stop(): Promise<void> {
    const processes = [...this.#running.values()];
    for (const process of processes) process.signal('SIGTERM');
    await Promise.all(processes.map((process) => process.endsWithin(STOP_LIMIT_MS)));
  }
}
