import { type Accident } from './accident.js';
export declare const passedOnAfterLoss: Accident;
//# sourceMappingURL=passed-on-after-loss.d.ts.map