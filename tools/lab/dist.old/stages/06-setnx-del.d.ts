import { type Stage } from './stage.js';
export declare const setnxDel: Stage;
//# sourceMappingURL=06-setnx-del.d.ts.map