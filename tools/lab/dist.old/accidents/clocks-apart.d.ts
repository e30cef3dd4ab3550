import { type Accident } from './accident.js';
export declare const clocksApart: Accident;
//# sourceMappingURL=clocks-apart.d.ts.map