import { type Stage } from './stage.js';
export declare const watchMultiExec: Stage;
//# sourceMappingURL=12-watch-multi-exec.d.ts.map