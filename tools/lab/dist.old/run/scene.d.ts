import type { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import type { Stage } from '../stages/stage.js';
import { type EventKind, type LabEvent } from '../work/events.js';
import type { Point, Setup } from '../work/messages.js';
import { Caller } from './caller.js';
import { type Finding } from './findings.js';
import type { Laboratory } from './laboratory.js';
import { ReplicatedRedis } from './servers.js';
import type { Trial } from './trial.js';
/** The scene of one trial: the processes, the servers, and everything that was seen. */
export declare class Scene {
    #private;
    readonly stage: Stage;
    readonly accident: string;
    private readonly lab;
    readonly events: LabEvent[];
    readonly product: string;
    constructor(stage: Stage, accident: string, lab: Laboratory);
    get name(): string;
    /** The lock's key in Redis. */
    get key(): string;
    /** The connection to Redis that the runner itself uses. */
    get redis(): Redis;
    get answers(): readonly number[];
    now(): number;
    /** A Redis server for this trial alone, which may be paused. */
    ownRedis(): Promise<RedisServer>;
    replicatedRedis(): Promise<ReplicatedRedis>;
    /** Callers that are ready to buy, each in a process of its own. */
    callers<const Lanes extends readonly string[]>(lanes: Lanes, setup?: Partial<Setup> & {
        readonly each?: readonly Partial<Setup>[];
    }): Promise<{
        -readonly [Lane in keyof Lanes]: Caller;
    }>;
    add(caller: Caller): Caller;
    begins(lane: string): void;
    ended(lane: string): void;
    hasEnded(lane: string): boolean;
    isAt(lane: string, point: Point): boolean;
    left(lane: string, point: Point): void;
    note(lane: string, kind: EventKind, text: string): void;
    /** Notes something that was done to the whole scene. */
    mark(text: string): void;
    /** Notes something worth saying, with numbers. */
    remark(text: string): void;
    saw(finding: Finding, text: string): void;
    /** Waits until something is seen, but no longer than the limit. */
    until(isTrue: () => boolean, limitMs: number): Promise<boolean>;
    /** The holder is dead. Finds out whether the next caller gets in on its own, and after how long. */
    entersOrIsStuck(caller: Caller): Promise<void>;
    /** Lets the lock run out at this very moment. */
    expireNow(): Promise<void>;
    /** Ends everything and says what was seen. */
    close(): Promise<Trial>;
    /** Stops what the trial has started, however the trial went. */
    dispose(): Promise<void>;
}
//# sourceMappingURL=scene.d.ts.map