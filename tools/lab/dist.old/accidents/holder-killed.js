import { blocksNobody, needs, NO_LOCK } from './accident.js';
export const holderKilled = {
    id: 'killed',
    name: 'holder killed',
    how: 'A is killed (SIGKILL) while it holds the lock; B waits for it',
    cannotHappenTo: (stage) => needs(stage, { lock: NO_LOCK }) ?? blocksNobody(stage),
    async play(scene) {
        const [a, b] = await scene.callers(['A', 'B']);
        a.buy({ stopAt: ['inside'] });
        await a.reaches('inside');
        b.buy();
        await b.asks();
        await a.kill('SIGKILL while it holds the lock');
        await scene.entersOrIsStuck(b);
    },
};
//# sourceMappingURL=holder-killed.js.map