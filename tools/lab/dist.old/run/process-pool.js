import { LabProcess } from './lab-process.js';
/** Processes that are reused for the next trial, because starting one takes longer than most trials. */
export class ProcessPool {
    /** Kept by kind of stage, so that a process that has loaded Nest is not given to a stage that does not need it. */
    #idle = new Map();
    #all = new Set();
    #isClosed = false;
    async take(withNest) {
        const idle = this.#idle.get(withNest)?.pop();
        if (idle !== undefined)
            return idle;
        if (this.#isClosed)
            throw new Error('The lab is being closed');
        const started = await LabProcess.start();
        this.#all.add(started);
        return started;
    }
    giveBack(process, withNest) {
        const idle = this.#idle.get(withNest) ?? [];
        idle.push(process);
        this.#idle.set(withNest, idle);
    }
    async discard(process) {
        this.#all.delete(process);
        await process.kill();
    }
    async close() {
        this.#isClosed = true;
        await Promise.all([...this.#all].map((process) => process.kill()));
    }
}
//# sourceMappingURL=process-pool.js.map