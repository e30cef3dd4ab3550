import type { Stage } from './stage.js';
export declare const noLock: Stage;
//# sourceMappingURL=01-no-lock.d.ts.map