import { type Stage } from './stage.js';
export declare const watchdog: Stage;
//# sourceMappingURL=15-watchdog.d.ts.map