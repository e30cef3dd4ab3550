import { LEASE_MS } from '../scale.js';
const PROCESSES = 3;
const WORKERS = 5;
/** No accident at all, only the common work. */
export const sale = {
    id: 'sale',
    name: 'the sale',
    how: '100 pieces, 15 workers in 3 processes, each buys 10 pieces up to 3 times',
    cannotHappenTo: () => undefined,
    async play(scene) {
        const lanes = Array.from({ length: PROCESSES }, (_, n) => `${n + 1}.1`);
        const firsts = await scene.callers(lanes, { recordCommands: false });
        const workers = firsts.flatMap((first, process) => [
            first,
            ...Array.from({ length: WORKERS - 1 }, (_, n) => first.alongside(`${process + 1}.${n + 2}`)),
        ]);
        for (const worker of workers)
            worker.buy({ times: 3, workMs: [5, 15] });
        await scene.until(() => workers.every(({ hasEnded }) => hasEnded), LEASE_MS * 10);
    },
};
//# sourceMappingURL=sale.js.map