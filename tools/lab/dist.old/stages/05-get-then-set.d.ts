import { type Stage } from './stage.js';
export declare const getThenSet: Stage;
//# sourceMappingURL=05-get-then-set.d.ts.map