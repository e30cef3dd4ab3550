import { RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
export declare function startRedis(): Promise<RedisServer>;
export declare function observe(url: string): Redis;
/** A main server with a replica behind one address, which moves to the replica when the main server is gone. */
export declare class ReplicatedRedis {
    #private;
    private readonly main;
    private readonly replica;
    private readonly proxy;
    private port;
    private constructor();
    static start(): Promise<ReplicatedRedis>;
    /** The address that the clients use. */
    get url(): string;
    /** From now on, nothing reaches the replica: it stands still, and its connection is cut. */
    stopReplication(): Promise<void>;
    /** The main server dies, the replica takes its place, and the address moves. */
    failOver(): Promise<void>;
    stop(): Promise<void>;
}
//# sourceMappingURL=servers.d.ts.map