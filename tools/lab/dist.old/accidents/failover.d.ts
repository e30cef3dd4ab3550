import { type Accident } from './accident.js';
export declare const failover: Accident;
//# sourceMappingURL=failover.d.ts.map