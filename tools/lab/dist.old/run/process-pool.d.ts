import { LabProcess } from './lab-process.js';
/** Processes that are reused for the next trial, because starting one takes longer than most trials. */
export declare class ProcessPool {
    #private;
    take(withNest: boolean): Promise<LabProcess>;
    giveBack(process: LabProcess, withNest: boolean): void;
    discard(process: LabProcess): Promise<void>;
    close(): Promise<void>;
}
//# sourceMappingURL=process-pool.d.ts.map