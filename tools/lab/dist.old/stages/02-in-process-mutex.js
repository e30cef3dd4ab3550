import { lockAround } from './stage.js';
export const inProcessMutex = {
    number: 2,
    name: 'in-process mutex',
    lesson: 'A lock object in memory is right as long as there is one process.',
    breaks: 'A second process has a lock object of its own.',
    traits: ['lock'],
    open(tools) {
        // Breaks here: every process has a queue of its own.
        let tail = Promise.resolve();
        return lockAround({
            async acquire() {
                const before = tail;
                let release = () => { };
                tail = new Promise((resolve) => (release = resolve));
                await before;
                return release;
            },
            release: async (_key, release) => release(),
        }, tools);
    },
};
//# sourceMappingURL=02-in-process-mutex.js.map