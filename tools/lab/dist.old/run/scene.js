import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS } from '../scale.js';
import { monotonicMs } from '../work/events.js';
import { Caller } from './caller.js';
import { findingsOf } from './findings.js';
import { observe, ReplicatedRedis, startRedis } from './servers.js';
import { summaryOf } from './summary.js';
const START_STOCK = 100;
const TEAR_DOWN_LIMIT_MS = 5_000;
/** The scene of one trial: the processes, the servers, and everything that was seen. */
export class Scene {
    stage;
    accident;
    lab;
    events = [];
    product;
    #start = monotonicMs();
    #callers = [];
    #processes = new Set();
    #stopListening = [];
    #at = new Set();
    #begun = new Set();
    #ended = new Set();
    #answers = [];
    #keyEvents = [];
    #seen = [];
    #checks = new Set();
    #stops = [];
    #redis;
    #redisUrl;
    constructor(stage, accident, lab) {
        this.stage = stage;
        this.accident = accident;
        this.lab = lab;
        this.product = `${accident}-${stage.number}`;
        this.#redis = lab.redis;
        this.#redisUrl = lab.redisUrl;
        this.#stops.push(lab.onKey(this.key, (kind) => this.#noteKey(kind)));
    }
    get name() {
        return `stage ${this.stage.number}, ${this.accident}`;
    }
    /** The lock's key in Redis. */
    get key() {
        return this.stage.number === 17 ? `lock:{stock:${this.product}}` : `lock:${this.product}`;
    }
    /** The connection to Redis that the runner itself uses. */
    get redis() {
        return this.#redis;
    }
    get answers() {
        return this.#answers;
    }
    now() {
        return monotonicMs();
    }
    /** A Redis server for this trial alone, which may be paused. */
    async ownRedis() {
        const server = await startRedis();
        this.#stops.push(() => server.stop());
        await this.#watch(server.url);
        return server;
    }
    async replicatedRedis() {
        const pair = await ReplicatedRedis.start();
        this.#stops.push(() => pair.stop());
        await this.#watch(pair.url);
        return pair;
    }
    /** Callers that are ready to buy, each in a process of its own. */
    async callers(lanes, setup = {}) {
        await this.lab.setStock(this.product, START_STOCK);
        const { each = [], ...shared } = setup;
        const processes = await Promise.all(lanes.map((_, n) => this.#process({ ...shared, ...each[n] })));
        const callers = lanes.map((lane, n) => this.add(new Caller(this, lane, processes[n])));
        return callers;
    }
    add(caller) {
        this.#callers.push(caller);
        return caller;
    }
    begins(lane) {
        this.#begun.add(lane);
    }
    ended(lane) {
        this.#ended.add(lane);
    }
    hasEnded(lane) {
        return this.#ended.has(lane);
    }
    isAt(lane, point) {
        return this.#at.has(`${lane} ${point}`);
    }
    left(lane, point) {
        this.#at.delete(`${lane} ${point}`);
    }
    note(lane, kind, text) {
        this.#add({ at: monotonicMs(), lane, kind, text });
    }
    /** Notes something that was done to the whole scene. */
    mark(text) {
        this.note('', 'mark', text);
    }
    /** Notes something worth saying, with numbers. */
    remark(text) {
        this.#seen.push({ finding: undefined, text });
    }
    saw(finding, text) {
        this.#seen.push({ finding, text });
    }
    /** Waits until something is seen, but no longer than the limit. */
    async until(isTrue, limitMs) {
        if (isTrue())
            return true;
        return new Promise((resolve) => {
            const settle = (answer) => {
                this.#checks.delete(check);
                clearTimeout(timer);
                resolve(answer);
            };
            const check = () => {
                if (isTrue())
                    settle(true);
            };
            const timer = setTimeout(() => settle(isTrue()), limitMs);
            this.#checks.add(check);
        });
    }
    /** The holder is dead. Finds out whether the next caller gets in on its own, and after how long. */
    async entersOrIsStuck(caller) {
        if (await caller.holds(LEASE_MS * 1.4))
            return;
        const noEnd = this.stage.traits.includes('client clock')
            ? false
            : (await this.#redis.pttl(this.key)) === -1;
        if (noEnd) {
            this.saw('locked for ever', 'the key has no expiry, and nobody is left to remove it');
        }
        else if (!(await caller.holds(LEASE_MS * 3))) {
            this.saw('locked for ever', `nobody got in for ${(LEASE_MS * 4.4) / 1_000} s`);
        }
    }
    /** Lets the lock run out at this very moment. */
    async expireNow() {
        const since = monotonicMs();
        if ((await this.#redis.pexpire(this.key, 1)) === 0)
            return;
        const isGone = ({ at, kind }) => kind === 'expired' && at >= since;
        await this.until(() => this.#keyEvents.some(isGone), LEASE_MS * 0.3);
    }
    /** Ends everything and says what was seen. */
    async close() {
        for (const caller of this.#callers) {
            if (caller.process.isPaused)
                caller.process.resume();
            caller.goOn();
        }
        const isStuck = this.#seen.some(({ finding }) => finding === 'locked for ever');
        await this.until(() => [...this.#begun].every((lane) => this.#ended.has(lane)), isStuck ? 0 : LEASE_MS * 3);
        for (const stop of this.#stopListening)
            stop();
        const hasEnded = [...this.#begun].every((lane) => this.#ended.has(lane));
        if (!hasEnded && !isStuck)
            this.saw('locked for ever', 'somebody waited until the very end');
        const stopped = await Promise.all([...this.#processes].map((process) => this.#return(process, hasEnded)));
        const traffic = stopped.reduce((sum, { commands, bytes }) => ({
            commands: sum.commands + commands,
            bytes: sum.bytes + bytes,
        }));
        const stock = await this.lab.stockOf(this.product, START_STOCK);
        return this.#trial(stock, traffic);
    }
    /** Stops what the trial has started, however the trial went. */
    async dispose() {
        for (const stop of this.#stopListening)
            stop();
        for (const process of this.#processes)
            await this.lab.pool.discard(process);
        for (const stop of this.#stops.reverse())
            await stop();
    }
    #trial(stock, traffic) {
        const since = (event) => ({
            ...event,
            at: event.at - this.#start,
        });
        const events = [...this.events]
            .sort((a, b) => a.at - b.at)
            .map((event) => event.kind === 'valid until'
            ? since({ ...event, text: String(Number(event.text) - this.#start) })
            : since(event));
        const lanes = this.#callers.map(({ lane }) => lane).filter((lane) => this.#begun.has(lane));
        const findings = findingsOf(events, stock, this.#seen);
        const trial = {
            stage: this.stage.number,
            accident: this.accident,
            lanes,
            events,
            keyEvents: this.#keyEvents.map(since),
            stock,
            traffic,
            seen: this.#seen,
            findings,
            ms: monotonicMs() - this.#start,
        };
        return { ...trial, summary: summaryOf(trial) };
    }
    async #process(setup) {
        const process = await this.lab.pool.take(this.stage.number === 17);
        this.#processes.add(process);
        this.#stopListening.push(process.onMessage((message) => this.#hear(message)));
        const ready = process.says('ready');
        process.tell({
            do: 'set up',
            setup: {
                stage: this.stage.number,
                redisUrl: this.#redisUrl,
                databaseUrl: this.lab.databaseUrl,
                product: this.product,
                clockOffsetMs: 0,
                transactionLimitMs: 0,
                recordCommands: true,
                seed: this.lab.seed,
                ...setup,
            },
        });
        await ready;
        return process;
    }
    async #return(process, hasEnded) {
        const nothing = { commands: 0, bytes: 0 };
        if (!process.isRunning || !hasEnded) {
            this.#processes.delete(process);
            await this.lab.pool.discard(process);
            return nothing;
        }
        const tornDown = process.says('torn down');
        process.tell({ do: 'tear down' });
        const limit = sleep(TEAR_DOWN_LIMIT_MS, undefined, { ref: false });
        const answer = await Promise.race([tornDown.catch(() => undefined), limit]);
        this.#processes.delete(process);
        if (answer === undefined) {
            await this.lab.pool.discard(process);
            return nothing;
        }
        this.lab.pool.giveBack(process, this.stage.number === 17);
        return answer.traffic;
    }
    #hear(message) {
        switch (message.say) {
            case 'event':
                return this.#add(message.event);
            case 'at':
                this.#at.add(`${message.lane} ${message.point}`);
                return this.#check();
            case 'ended':
                this.#ended.add(message.lane);
                return this.#check();
            case 'answered':
                this.#answers.push(message.ms);
                return this.#check();
            case 'broken':
                this.saw('call failed', message.message);
                return this.#check();
            case 'ready':
            case 'torn down':
        }
    }
    #add(event) {
        this.events.push(event);
        this.#check();
    }
    #check() {
        for (const check of [...this.#checks])
            check();
    }
    #noteKey(kind) {
        this.#keyEvents.push({ at: monotonicMs(), kind });
        this.#check();
    }
    async #watch(url) {
        this.#redisUrl = url;
        const redis = observe(url);
        const stopWatching = await this.lab.watchKeys(url);
        this.#redis = redis;
        this.#stops.push(async () => redis.disconnect(), stopWatching);
    }
}
//# sourceMappingURL=scene.js.map