import { type Accident } from './accident.js';
export declare const waiterKilled: Accident;
//# sourceMappingURL=waiter-killed.d.ts.map