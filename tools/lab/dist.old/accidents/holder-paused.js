import { LEASE_MS } from '../scale.js';
export const holderPaused = {
    id: 'pause',
    name: 'holder paused before COMMIT',
    how: 'A is paused (SIGSTOP) when it is about to send COMMIT, until its lock has expired and B is in; then it wakes up',
    cannotHappenTo: () => undefined,
    async play(scene) {
        const [a, b] = await scene.callers(['A', 'B']);
        a.buy({ stopAt: ['commit'] });
        await a.reaches('commit');
        a.pause('SIGSTOP before COMMIT');
        b.buy();
        await b.asks();
        // Waits until B is done. It may also be that B's write waits in the database for A's transaction, or that B does
        // not get in.
        if (await b.holds(LEASE_MS * 1.7)) {
            await scene.until(() => b.did('write') || b.hasEnded, LEASE_MS);
            await b.ends(LEASE_MS * 0.2);
        }
        a.go('commit');
        a.resume('SIGCONT: sends COMMIT');
        await a.ends();
    },
};
//# sourceMappingURL=holder-paused.js.map