import { type Accident } from './accident.js';
export declare const expiredBeforeRemoval: Accident;
//# sourceMappingURL=expired-before-removal.d.ts.map