import { needs, NO_LOCK, NO_REDIS } from './accident.js';
export const releasedBetween = {
    id: 'nil',
    name: 'reply of nil to a naive int()',
    how: 'A releases the lock after B has failed to take it, and before the next command of B',
    cannotHappenTo: (stage) => needs(stage, { lock: NO_LOCK, redis: NO_REDIS }),
    async play(scene) {
        const [a, b] = await scene.callers(['A', 'B']);
        a.buy({ stopAt: ['inside'] });
        await a.reaches('inside');
        b.buy({ stopAt: ['first reply'] });
        await b.reaches('first reply');
        a.goOn();
        await a.ends();
        scene.mark('A has released the lock; B goes on');
        b.goOn();
        await b.ends();
    },
};
//# sourceMappingURL=released-between.js.map