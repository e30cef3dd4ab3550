/** The package has types, but its `exports` do not lead to them. Only what the tests use. */
declare module 'redlock' {
  export class ExecutionError extends Error {}

  export interface Lock {
    readonly value: string;
    release(): Promise<unknown>;
    extend(durationMs: number): Promise<Lock>;
  }

  interface Settings {
    readonly retryCount: number;
    readonly retryDelay: number;
    readonly retryJitter: number;
  }

  export default class Redlock {
    constructor(clients: Iterable<unknown>, settings?: Partial<Settings>);
    acquire(resources: string[], durationMs: number, settings?: Partial<Settings>): Promise<Lock>;
    release(lock: Lock, settings?: Partial<Settings>): Promise<unknown>;
  }
}
