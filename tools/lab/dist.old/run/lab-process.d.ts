import { ChildProgram } from 'kit';
import type { FromWorker, ToWorker } from '../work/messages.js';
/** The outside view of a process in which callers run. */
export declare class LabProcess extends ChildProgram<ToWorker, FromWorker> {
    static start(): Promise<LabProcess>;
    /** @throws Error if the process reports that something is broken, ends, or is silent for a minute */
    says<Say extends FromWorker['say']>(say: Say): Promise<Extract<FromWorker, {
        say: Say;
    }>>;
}
//# sourceMappingURL=lab-process.d.ts.map