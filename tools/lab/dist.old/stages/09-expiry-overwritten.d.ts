import { type Stage } from './stage.js';
export declare const expiryOverwritten: Stage;
//# sourceMappingURL=09-expiry-overwritten.d.ts.map