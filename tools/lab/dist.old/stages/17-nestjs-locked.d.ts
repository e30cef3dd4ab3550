import type { Stage } from './stage.js';
export declare const nestjsLocked: Stage;
//# sourceMappingURL=17-nestjs-locked.d.ts.map