import { type Stage } from './stage.js';
export declare const renewalAndWakeUp: Stage;
//# sourceMappingURL=14-renewal-and-wake-up.d.ts.map