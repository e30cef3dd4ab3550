import { type Stage } from './stage.js';
export declare const inProcessMutex: Stage;
//# sourceMappingURL=02-in-process-mutex.d.ts.map