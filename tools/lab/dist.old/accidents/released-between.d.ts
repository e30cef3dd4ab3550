import { type Accident } from './accident.js';
export declare const releasedBetween: Accident;
//# sourceMappingURL=released-between.d.ts.map