import type { Scene } from '../run/scene.js';
import type { Stage } from '../stages/stage.js';
/** One thing that goes wrong, provoked at its exact point. */
export interface Accident {
    readonly id: string;
    /** The heading of its column. */
    readonly name: string;
    /** What is done to the stage, and at which point. */
    readonly how: string;
    /** Why it cannot happen to this stage; undefined if it can. */
    cannotHappenTo(stage: Stage): string | undefined;
    play(scene: Scene): Promise<void>;
}
export declare const NO_LOCK = "there is no lock";
export declare const NO_REDIS = "does not use Redis";
export declare const NO_EXPIRY = "never expires";
/**
 * Says why an accident of two processes cannot happen to a lock that each process has for itself, or that nobody waits
 * for.
 */
export declare function blocksNobody({ number }: Stage): string | undefined;
export declare function needs(stage: Stage, reasons: Partial<Record<Stage['traits'][number], string>>): string | undefined;
//# sourceMappingURL=accident.d.ts.map