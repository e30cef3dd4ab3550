import { type Accident } from './accident.js';
export declare const renewalStops: Accident;
//# sourceMappingURL=renewal-stops.d.ts.map