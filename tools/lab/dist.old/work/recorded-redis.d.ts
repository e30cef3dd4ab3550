import { type Command, Redis, type RedisOptions } from 'ioredis';
import { type Purchase } from './purchase.js';
/** What all clients of one process have in common. */
export interface RedisRecord {
    commands: number;
    /**
     * The callers of this process. What a timer or a message sets off belongs to the caller that holds, or to the only
     * one.
     */
    readonly purchases: Map<string, Purchase>;
    writesDown: boolean;
}
/**
 * A client that counts and writes down what is sent, and can stop before a command or before its reply is delivered.
 * Otherwise it behaves as usual.
 */
export declare class RecordedRedis extends Redis {
    #private;
    private readonly address;
    private readonly record;
    constructor(address: string, record: RedisRecord, options?: Partial<RedisOptions>);
    get bytes(): number;
    duplicate(override?: Partial<RedisOptions>): Redis;
    sendCommand(command: Command, stream?: never): unknown;
}
//# sourceMappingURL=recorded-redis.d.ts.map