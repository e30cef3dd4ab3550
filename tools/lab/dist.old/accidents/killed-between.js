import { needs, NO_LOCK, NO_REDIS } from './accident.js';
export const killedBetween = {
    id: 'between',
    name: 'killed between SETNX and EXPIRE',
    how: 'A is killed when its first command of taking the lock was answered, and before the next',
    cannotHappenTo: (stage) => needs(stage, { lock: NO_LOCK, redis: NO_REDIS }) ??
        // Ours is one script. With it, A dies when the script has run but its reply has not arrived yet.
        (stage.traits.includes('several commands') || stage.number === 17
            ? undefined
            : 'takes the lock in one command'),
    async play(scene) {
        const [a, b] = await scene.callers(['A', 'B']);
        a.buy({ stopAt: ['first reply'] });
        await a.reaches('first reply');
        await a.kill('SIGKILL after the first command');
        b.buy();
        await scene.entersOrIsStuck(b);
    },
};
//# sourceMappingURL=killed-between.js.map