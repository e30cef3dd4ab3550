import { type Stage } from './stage.js';
export declare const setnxExpire: Stage;
//# sourceMappingURL=07-setnx-expire.d.ts.map