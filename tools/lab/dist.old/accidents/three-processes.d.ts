import { type Accident } from './accident.js';
export declare const threeProcesses: Accident;
//# sourceMappingURL=three-processes.d.ts.map