import type { Accident } from './accident.js';
export declare const holderPaused: Accident;
//# sourceMappingURL=holder-paused.d.ts.map