import { type Accident } from './accident.js';
export declare const twoLook: Accident;
//# sourceMappingURL=two-look.d.ts.map