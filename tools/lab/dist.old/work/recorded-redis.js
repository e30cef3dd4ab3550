import { Redis } from 'ioredis';
import { currentPurchase } from './purchase.js';
const HANDSHAKE = new Set(['hello', 'client', 'select', 'auth', 'ping', 'info']);
const PROLONGS = new Set(['pexpire', 'eval', 'evalsha']);
const REMOVES = new Set(['del', 'multi', 'eval', 'evalsha']);
/**
 * A client that counts and writes down what is sent, and can stop before a command or before its reply is delivered.
 * Otherwise it behaves as usual.
 */
export class RecordedRedis extends Redis {
    address;
    record;
    #seen = new WeakSet();
    constructor(address, record, options = {}) {
        super(address, {
            maxRetriesPerRequest: null,
            retryStrategy: () => 100,
            ...options,
        });
        this.address = address;
        this.record = record;
        this.on('error', () => { }); // servers are taken away on purpose
    }
    get bytes() {
        const stream = this.stream;
        return stream === undefined ? 0 : stream.bytesRead + stream.bytesWritten;
    }
    duplicate(override = {}) {
        return new RecordedRedis(this.address, this.record, { ...this.options, ...override });
    }
    sendCommand(command, stream) {
        if (this.#seen.has(command) || HANDSHAKE.has(command.name)) {
            return super.sendCommand(command, stream);
        }
        this.#seen.add(command);
        this.record.commands += 1;
        const purchase = currentPurchase.getStore() ?? this.#ownerOfTimers();
        if (purchase === undefined)
            return super.sendCommand(command, stream);
        const phase = purchase.phase;
        this.#stopBeforeReply(command, purchase);
        if (phase === 'holding' && PROLONGS.has(command.name) && purchase.stopsAt('renewal')) {
            return this.#sendAfter(purchase.reach('renewal'), command, stream);
        }
        if (phase === 'returning' && REMOVES.has(command.name) && purchase.stopsAt('removal')) {
            return this.#sendAfter(purchase.reach('removal'), command, stream);
        }
        return super.sendCommand(command, stream);
    }
    #ownerOfTimers() {
        const all = [...this.record.purchases.values()];
        return all.length === 1 ? all[0] : all.find(({ phase }) => phase === 'holding');
    }
    #sendAfter(stop, command, stream) {
        const sent = stop.then(() => super.sendCommand(command, stream));
        sent.catch(() => { }); // the sender of the command has its promise
        return command.promise;
    }
    #stopBeforeReply(command, purchase) {
        const deliver = command.resolve;
        const asks = purchase.phase === 'asking';
        command.resolve = (reply) => {
            if (this.record.writesDown)
                purchase.note('command', `${inWords(command)} → ${short(reply)}`);
            if (!asks)
                return deliver(reply);
            const point = showsExpired(command, reply) ? 'saw expired' : 'first reply';
            if (!purchase.stopsAt(point))
                return deliver(reply);
            void purchase.reach(point).then(() => deliver(reply));
        };
    }
}
function showsExpired(command, reply) {
    return command.name === 'get' && reply !== null && Number(text(reply)) < Date.now();
}
function inWords(command) {
    const name = command.name.toUpperCase();
    return name === 'EVAL' || name === 'EVALSHA' ? 'script' : name;
}
function short(reply) {
    const all = Array.isArray(reply) ? reply.map(text).join(' ') : text(reply);
    return all.length > 24 ? `${all.slice(0, 23)}…` : all;
}
function text(reply) {
    if (reply === null || reply === undefined)
        return 'nil';
    if (Buffer.isBuffer(reply))
        return reply.toString();
    return typeof reply === 'string' ? reply : JSON.stringify(reply);
}
//# sourceMappingURL=recorded-redis.js.map