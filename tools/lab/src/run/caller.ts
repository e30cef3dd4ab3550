import { LEASE_MS } from '../scale.js';
import type { EventKind } from '../work/events.js';
import type { Order, Point } from '../work/messages.js';
import type { LabProcess } from './lab-process.js';
import type { Scene } from './scene.js';

/** A buyer in a process of the lab, which is told what to do and stopped at exact points. */
export class Caller {
  hasBegun = false;
  hasEnded = false;
  /** The points where it has stopped. */
  readonly at = new Set<Point>();

  constructor(
    private readonly scene: Scene,
    readonly lane: string,
    readonly process: LabProcess,
  ) {}

  buy(order: Partial<Omit<Order, 'lane'>> = {}): void {
    this.hasBegun = true;
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

  /** Buys, stops at these points, and is at the first one. */
  async buysUntil(first: Point, ...others: Point[]): Promise<void> {
    this.buy({ stopAt: [first, ...others] });
    await this.reaches(first);
  }

  /** Another caller in the same process. */
  alongside(lane: string): Caller {
    return this.scene.add(new Caller(this.scene, lane, this.process));
  }

  did(kind: EventKind, since = 0): boolean {
    return this.scene.events.some(
      (event) => event.lane === this.lane && event.kind === kind && event.at >= since,
    );
  }

  /** @throws Error if the caller does not get there, because the lab would then not test what it says */
  async reaches(point: Point, limitMs = LEASE_MS * 4): Promise<void> {
    if (await this.scene.until(() => this.at.has(point), limitMs)) return;
    throw new Error(`${this.lane} of ${this.scene.name} did not come to the point '${point}'`);
  }

  /** Buys, stops at these points, and has asked for the lock, with a first answer if it asks Redis. */
  async asks(...stopAt: Point[]): Promise<void> {
    this.buy({ stopAt });
    const first: EventKind[] = this.scene.stage.traits.includes('redis')
      ? ['command', 'hold']
      : ['wait', 'read', 'hold'];
    await this.scene.until(() => first.some((kind) => this.did(kind)), LEASE_MS * 4);
  }

  /** Whether the caller gets the lock within the given time. */
  holds(limitMs: number): Promise<boolean> {
    return this.scene.until(() => this.did('hold') || this.hasEnded, limitMs);
  }

  /** Whether the caller still waits after it has asked once more, or after a while in which it would have asked. */
  async stillWaits(): Promise<boolean> {
    const since = this.scene.now();
    await this.scene.until(() => this.did('command', since) || this.did('hold'), LEASE_MS * 0.5);
    return !(await this.holds(LEASE_MS * 0.1));
  }

  /** It is inside, or it has asked once more and still waits, or it has failed. */
  async isInsideUnlessItWaits(): Promise<void> {
    if (!(await this.stillWaits()) && this.did('hold')) await this.reaches('inside');
  }

  /** Whether it gets inside, and stops there. */
  async entersUnlessItFails(limitMs: number): Promise<boolean> {
    await this.holds(limitMs);
    if (!this.did('hold')) return false;
    await this.reaches('inside');
    return true;
  }

  ends(limitMs = LEASE_MS * 4): Promise<boolean> {
    return this.scene.until(() => this.hasEnded, limitMs);
  }

  go(point: Point): void {
    this.process.tell({ do: 'go', lane: this.lane, point });
    this.at.delete(point);
  }

  /** Lets the caller pass all points from now on. */
  goOn(): void {
    this.process.tell({ do: 'go on', lane: this.lane });
  }

  async kill(why: string): Promise<void> {
    this.scene.note('killed', why, this.lane);
    await this.process.kill();
    this.hasEnded = true;
  }

  pause(why: string): void {
    this.process.pause();
    this.scene.note('paused', why, this.lane);
  }

  resume(why: string): void {
    this.scene.note('resumed', why, this.lane);
    this.process.resume();
  }
}
