/** redlock 4.2 has no types of its own. Only what is used here. */
declare module 'redlock4' {
  export interface Lock {
    extend(ttl: number): Promise<Lock>;
    unlock(): Promise<void>;
  }

  export interface Options {
    readonly driftFactor?: number;
    readonly retryCount?: number;
    readonly retryDelay?: number;
    readonly retryJitter?: number;
  }

  export default class Redlock {
    constructor(clients: readonly unknown[], options?: Options);
    on(event: 'clientError', listen: (error: Error) => void): this;
    lock(resource: string | readonly string[], ttl: number, options?: Options): Promise<Lock>;
  }
}
