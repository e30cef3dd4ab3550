import type { Accident } from './accident.js';
/** No accident at all, only the common work. */
export declare const sale: Accident;
//# sourceMappingURL=sale.d.ts.map