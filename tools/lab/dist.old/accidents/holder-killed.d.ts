import { type Accident } from './accident.js';
export declare const holderKilled: Accident;
//# sourceMappingURL=holder-killed.d.ts.map