import { setTimeout as sleep } from 'node:timers/promises';
import { inSeconds } from '../run/summary.js';
import { LEASE_MS, seconds } from '../scale.js';
import { blocksNobody, needs, NO_LOCK } from './accident.js';
const POOL = 5;
const LIMIT_MS = seconds(5);
export const lockInTransaction = {
    id: 'in-transaction',
    name: 'lock asked for in a transaction',
    how: '5 callers begin a transaction and ask for the lock inside it, with a pool of 5 and a transaction time-out of 5 s; A holds the lock for longer',
    cannotHappenTo: (stage) => needs(stage, { lock: NO_LOCK }) ?? blocksNobody(stage),
    async play(scene) {
        const [a, b1] = await scene.callers(['A', 'B1'], {
            each: [{}, { transactionLimitMs: LIMIT_MS }],
        });
        const callers = [b1, ...['B2', 'B3', 'B4', 'B5'].map((lane) => b1.alongside(lane))];
        // A does not ask for its lock inside a transaction: it does it right, and takes its time before it begins.
        a.buy({ stopAt: ['inside'] });
        await a.reaches('inside');
        for (const caller of callers)
            caller.buy({ insideTransaction: true });
        await scene.until(() => callers.every((caller) => caller.did('wait')), LEASE_MS);
        b1.process.tell({ do: 'ask database' });
        await sleep(LIMIT_MS * 1.3);
        scene.mark('the transaction time-out has passed');
        a.goOn();
        await scene.until(() => callers.every(({ hasEnded }) => hasEnded), LEASE_MS * 4);
        await scene.until(() => scene.answers.length > 0, LEASE_MS);
        const [answerMs = Infinity] = scene.answers;
        const answered = `a query that needs no lock was answered after ${inSeconds(answerMs)}`;
        if (answerMs < LIMIT_MS)
            scene.remark(answered);
        else
            scene.saw('call failed', `all ${POOL} connections waited for the lock, ${answered}`);
    },
};
//# sourceMappingURL=lock-in-transaction.js.map