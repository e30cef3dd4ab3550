/** The package has types, but its `exports` do not lead to them. Only what is used here. */
declare module 'redlock' {
  interface Lock {
    release(): Promise<unknown>;
  }

  interface Settings {
    readonly retryCount: number;
    readonly retryDelay: number;
    readonly retryJitter: number;
  }

  export default class Redlock {
    constructor(clients: Iterable<unknown>, settings?: Partial<Settings>);
    on(event: 'error', listen: (error: Error) => void): this;
    acquire(resources: string[], durationMs: number): Promise<Lock>;
  }
}
