import type { Accident } from './accident.js';
export declare const workOutlivesLease: Accident;
//# sourceMappingURL=work-outlives-lease.d.ts.map