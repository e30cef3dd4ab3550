import { LEASE_MS } from '../scale.js';
import { needs, NO_LOCK, NO_REDIS } from './accident.js';
export const twoLook = {
    id: 'look',
    name: 'two look before one takes',
    how: 'A is stopped when its first command was answered; B asks for the lock; then A goes on',
    cannotHappenTo: (stage) => needs(stage, { lock: NO_LOCK, redis: NO_REDIS }),
    async play(scene) {
        const [a, b] = await scene.callers(['A', 'B']);
        a.buy({ stopAt: ['first reply', 'inside'] });
        await a.reaches('first reply');
        b.buy({ stopAt: ['inside'] });
        await b.asks();
        if (!(await b.stillWaits()))
            await b.reaches('inside');
        scene.mark('A goes on');
        a.go('first reply');
        await scene.until(() => a.isAt('inside'), LEASE_MS * 0.2);
        b.goOn();
        if (b.did('hold'))
            await b.ends();
        a.goOn();
    },
};
//# sourceMappingURL=two-look.js.map