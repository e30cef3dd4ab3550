import { type Accident } from './accident.js';
export declare const redisHangs: Accident;
//# sourceMappingURL=redis-hangs.d.ts.map