import { type Stage } from './stage.js';
export declare const lockPlus: Stage;
//# sourceMappingURL=16-lock-plus.d.ts.map