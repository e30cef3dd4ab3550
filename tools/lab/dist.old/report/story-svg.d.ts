import type { Trial } from '../run/trial.js';
/** Three small pictures of the same work in one file: with no lock, with a lock without renewal, and with ours. */
export declare function storySvg(trials: readonly Trial[]): string | undefined;
//# sourceMappingURL=story-svg.d.ts.map