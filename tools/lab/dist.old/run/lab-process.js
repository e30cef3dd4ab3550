import { ChildProgram } from 'kit';
import { fileURLToPath } from 'node:url';
const PROGRAM = fileURLToPath(new URL('../worker.js', import.meta.url));
const START_LIMIT_MS = 60_000;
/** The outside view of a process in which callers run. */
export class LabProcess extends ChildProgram {
    static async start() {
        const started = new LabProcess(PROGRAM);
        await started.says('ready');
        return started;
    }
    /** @throws Error if the process reports that something is broken, ends, or is silent for a minute */
    async says(say) {
        return new Promise((resolve, reject) => {
            const settle = (act) => {
                stopListening();
                clearTimeout(timer);
                act();
            };
            const stopListening = this.onMessage((message) => {
                if (message.say === say)
                    settle(() => resolve(message));
                if (message.say === 'broken')
                    settle(() => reject(new Error(message.message)));
            });
            const fail = (what) => settle(() => reject(new Error(`A process of the lab ${what}`)));
            const timer = setTimeout(() => fail(`did not say '${say}'`), START_LIMIT_MS);
            void this.ended.then((how) => fail(`has ended: ${how}`));
        });
    }
}
//# sourceMappingURL=lab-process.js.map