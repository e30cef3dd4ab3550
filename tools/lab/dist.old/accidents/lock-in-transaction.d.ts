import { type Accident } from './accident.js';
export declare const lockInTransaction: Accident;
//# sourceMappingURL=lock-in-transaction.d.ts.map