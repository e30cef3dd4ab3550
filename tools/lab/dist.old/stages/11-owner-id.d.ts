import { type Stage } from './stage.js';
export declare const ownerId: Stage;
//# sourceMappingURL=11-owner-id.d.ts.map