import type { Stage } from './stage.js';
export declare const rowLock: Stage;
//# sourceMappingURL=03-row-lock.d.ts.map