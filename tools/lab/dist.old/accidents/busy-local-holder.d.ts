import { type Accident } from './accident.js';
export declare const busyLocalHolder: Accident;
//# sourceMappingURL=busy-local-holder.d.ts.map