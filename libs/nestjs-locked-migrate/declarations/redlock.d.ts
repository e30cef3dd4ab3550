// What the codemod has to know of redlock 5 and @sesamecare-oss/redlock, whose own types are not found everywhere.
export declare class Lock {
  readonly redlock: Redlock;
  readonly resources: string[];
  readonly value: string;
  readonly attempts: any;
  expiration: number;
  release(): Promise<ExecutionResult>;
  extend(duration: number): Promise<Lock>;
}
export declare class ExecutionError extends Error {
  readonly attempts: any;
}
export declare class ResourceLockedError extends Error {}
export declare class ExecutionResult {
  attempts: any;
}
export interface Settings {
  readonly driftFactor?: number;
  readonly retryCount?: number;
  readonly retryDelay?: number;
  readonly retryJitter?: number;
  readonly automaticExtensionThreshold?: number;
  readonly db?: number;
}
export type RedlockAbortSignal = AbortSignal & { error?: Error };
export interface RedlockUsingContext {
  lock: Lock;
  extensions: number;
}
export declare class Redlock {
  constructor(clients: Iterable<any>, settings?: Settings, scripts?: any);
  on(event: string, listener: (...values: any[]) => void): this;
  quit(): Promise<void>;
  acquire(resources: string[], duration: number, settings?: Settings): Promise<Lock>;
  release(lock: Lock, settings?: Settings): Promise<ExecutionResult>;
  extend(lock: Lock, duration: number, settings?: Settings): Promise<Lock>;
  using<T>(
    resources: string[],
    duration: number,
    routine: (signal: RedlockAbortSignal, context: RedlockUsingContext) => Promise<T>,
  ): Promise<T>;
  using<T>(
    resources: string[],
    duration: number,
    settings: Settings,
    routine: (signal: RedlockAbortSignal, context: RedlockUsingContext) => Promise<T>,
  ): Promise<T>;
}
export default Redlock;
