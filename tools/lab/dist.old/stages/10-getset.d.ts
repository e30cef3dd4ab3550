import { type Stage } from './stage.js';
export declare const getset: Stage;
//# sourceMappingURL=10-getset.d.ts.map