import type { Stage } from './stage.js';
export declare const versionColumn: Stage;
//# sourceMappingURL=04-version-column.d.ts.map