import { RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
/** Lets Redis itself say when a key was set, removed or expired, so that the observer is not the lock under test. */
const TELL_OF_KEYS = ['--notify-keyspace-events', 'Kg$hx'];
export function startRedis() {
    return RedisServer.start({ args: TELL_OF_KEYS });
}
export function observe(url) {
    const redis = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 100 });
    redis.on('error', () => { }); // servers are taken away on purpose
    return redis;
}
/** A main server with a replica behind one address, which moves to the replica when the main server is gone. */
export class ReplicatedRedis {
    main;
    replica;
    proxy;
    port;
    #sockets = new Set();
    constructor(main, replica, proxy, port) {
        this.main = main;
        this.replica = replica;
        this.proxy = proxy;
        this.port = port;
    }
    static async start() {
        const main = await RedisServer.start({
            args: [...TELL_OF_KEYS, '--repl-diskless-sync-delay', '0'],
        });
        const replica = await RedisServer.start({
            args: [...TELL_OF_KEYS, '--replicaof', `127.0.0.1 ${main.port}`],
        });
        const proxy = createServer();
        const pair = new ReplicatedRedis(main, replica, proxy, main.port);
        proxy.on('connection', (client) => pair.#forward(client));
        proxy.listen(0, '127.0.0.1');
        await once(proxy, 'listening');
        await pair.#untilReplicaFollows();
        return pair;
    }
    /** The address that the clients use. */
    get url() {
        return `redis://127.0.0.1:${this.proxy.address().port}`;
    }
    /** From now on, nothing reaches the replica: it stands still, and its connection is cut. */
    async stopReplication() {
        this.replica.pause();
        await withRedis(this.main.url, (redis) => redis.call('CLIENT', 'KILL', 'TYPE', 'replica'));
    }
    /** The main server dies, the replica takes its place, and the address moves. */
    async failOver() {
        await this.main.kill();
        this.replica.resume();
        await withRedis(this.replica.url, (redis) => redis.call('REPLICAOF', 'NO', 'ONE'));
        this.port = this.replica.port;
        for (const socket of this.#sockets)
            socket.destroy();
    }
    async stop() {
        this.proxy.close();
        for (const socket of this.#sockets)
            socket.destroy();
        await Promise.all([this.main.stop(), this.replica.stop()]);
    }
    #forward(client) {
        const server = connect(this.port, '127.0.0.1');
        for (const [from, to] of [
            [client, server],
            [server, client],
        ]) {
            this.#sockets.add(from);
            from.pipe(to);
            from.on('error', () => to.destroy());
            from.on('close', () => {
                this.#sockets.delete(from);
                to.destroy();
            });
        }
    }
    async #untilReplicaFollows() {
        await withRedis(this.main.url, async (redis) => {
            while (!(await redis.info('replication')).includes('state=online')) {
                await new Promise((resolve) => setTimeout(resolve, 20));
            }
        });
    }
}
async function withRedis(url, use) {
    const redis = observe(url);
    try {
        return await use(redis);
    }
    finally {
        redis.disconnect();
    }
}
//# sourceMappingURL=servers.js.map