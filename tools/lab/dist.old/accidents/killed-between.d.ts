import { type Accident } from './accident.js';
export declare const killedBetween: Accident;
//# sourceMappingURL=killed-between.d.ts.map