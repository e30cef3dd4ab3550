import type { EventKind } from '../work/events.js';
import type { Order, Point } from '../work/messages.js';
import type { LabProcess } from './lab-process.js';
import type { Scene } from './scene.js';
/** A buyer in a process of the lab, which is told what to do and stopped at exact points. */
export declare class Caller {
    private readonly scene;
    readonly lane: string;
    readonly process: LabProcess;
    constructor(scene: Scene, lane: string, process: LabProcess);
    buy(order?: Partial<Omit<Order, 'lane'>>): void;
    /** Another caller in the same process. */
    alongside(lane: string): Caller;
    did(kind: EventKind, since?: number): boolean;
    isAt(point: Point): boolean;
    get hasEnded(): boolean;
    /** @throws Error if the caller does not get there, because the lab would then not test what it says */
    reaches(point: Point, limitMs?: number): Promise<void>;
    /** Waits until the caller has asked for the lock, and has got a first answer if it asks Redis. */
    asks(): Promise<void>;
    /** Whether the caller gets the lock within the given time. */
    holds(limitMs: number, since?: number): Promise<boolean>;
    /** Whether the caller still waits after it has asked once more, or after a while in which it would have asked. */
    stillWaits(): Promise<boolean>;
    ends(limitMs?: number): Promise<boolean>;
    go(point: Point): void;
    /** Lets the caller pass all points from now on. */
    goOn(): void;
    kill(why: string): Promise<void>;
    pause(why: string): void;
    resume(why: string): void;
}
//# sourceMappingURL=caller.d.ts.map