import type { Stage } from './stage.js';
/** The sixteen steps of the articles, and ours. */
export declare const STAGES: readonly Stage[];
//# sourceMappingURL=index.d.ts.map