// What the codemod has to know of murlock 4, so that names are recognized where it is not installed.
export declare function MurLock(releaseTime: number, ...waitAndKeyParams: any[]): any;
export declare function SetParamNames(...names: any[]): any;
export declare class MurLockModule {
  static forRoot(options: any): any;
  static forRootAsync(options: any): any;
}
export declare class MurLockService {
  readonly options: any;
  runWithLock<R>(lockKey: string, releaseTime: number, fn: () => Promise<R>): Promise<R>;
  runWithLock<R>(lockKey: string, releaseTime: number, wait: any, fn: () => Promise<R>): Promise<R>;
}
export declare class MurLockException extends Error {}
export declare class MurLockRedisException extends MurLockException {}
export type MurLockModuleOptions = any;
export type MurLockModuleAsyncOptions = any;
