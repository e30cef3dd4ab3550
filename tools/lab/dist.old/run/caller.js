import { LEASE_MS } from '../scale.js';
/** A buyer in a process of the lab, which is told what to do and stopped at exact points. */
export class Caller {
    scene;
    lane;
    process;
    constructor(scene, lane, process) {
        this.scene = scene;
        this.lane = lane;
        this.process = process;
    }
    buy(order = {}) {
        this.scene.begins(this.lane);
        this.process.tell({
            do: 'buy',
            order: {
                lane: this.lane,
                quantity: 10,
                times: 1,
                stopAt: [],
                insideTransaction: false,
                workMs: [10, 20],
                ...order,
            },
        });
    }
    /** Another caller in the same process. */
    alongside(lane) {
        return this.scene.add(new Caller(this.scene, lane, this.process));
    }
    did(kind, since = 0) {
        return this.scene.events.some((event) => event.lane === this.lane && event.kind === kind && event.at >= since);
    }
    isAt(point) {
        return this.scene.isAt(this.lane, point);
    }
    get hasEnded() {
        return this.scene.hasEnded(this.lane);
    }
    /** @throws Error if the caller does not get there, because the lab would then not test what it says */
    async reaches(point, limitMs = LEASE_MS * 4) {
        if (await this.scene.until(() => this.isAt(point), limitMs))
            return;
        throw new Error(`${this.lane} of ${this.scene.name} did not come to the point '${point}'`);
    }
    /** Waits until the caller has asked for the lock, and has got a first answer if it asks Redis. */
    async asks() {
        const first = this.scene.stage.traits.includes('redis')
            ? ['command', 'hold']
            : ['wait', 'read', 'hold'];
        await this.scene.until(() => first.some((kind) => this.did(kind)), LEASE_MS * 4);
    }
    /** Whether the caller gets the lock within the given time. */
    holds(limitMs, since = 0) {
        return this.scene.until(() => this.did('hold', since) || this.hasEnded, limitMs);
    }
    /** Whether the caller still waits after it has asked once more, or after a while in which it would have asked. */
    async stillWaits() {
        const since = this.scene.now();
        await this.scene.until(() => this.did('command', since) || this.did('hold'), LEASE_MS * 0.5);
        return !(await this.holds(LEASE_MS * 0.1));
    }
    ends(limitMs = LEASE_MS * 4) {
        return this.scene.until(() => this.hasEnded, limitMs);
    }
    go(point) {
        this.process.tell({ do: 'go', lane: this.lane, point });
        this.scene.left(this.lane, point);
    }
    /** Lets the caller pass all points from now on. */
    goOn() {
        this.process.tell({ do: 'go on', lane: this.lane });
    }
    async kill(why) {
        this.scene.note(this.lane, 'killed', why);
        await this.process.kill();
        this.scene.ended(this.lane);
    }
    pause(why) {
        this.process.pause();
        this.scene.note(this.lane, 'paused', why);
    }
    resume(why) {
        this.scene.note(this.lane, 'resumed', why);
        this.process.resume();
    }
}
//# sourceMappingURL=caller.js.map