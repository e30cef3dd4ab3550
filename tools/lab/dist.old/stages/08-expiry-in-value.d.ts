import { type Stage } from './stage.js';
export declare const expiryInValue: Stage;
//# sourceMappingURL=08-expiry-in-value.d.ts.map