import { Injectable } from '@nestjs/common';
import { acquire, redlock } from './redlock.js';
import { InjectLockService, LockService } from 'nestjs-locked';

const TAGGED = '{report}:2';

export class Plain {
  async run(): Promise<void> {
    await redlock.using(['plain'], 5000, async () => {});
  }
}

@Injectable()
export class ReportsService {
  @InjectLockService() private readonly locks!: LockService;

  constructor(private readonly name = 'reports') {}

  // This one can be rewritten.
  async write(): Promise<void> {
    await this.locks.withLock(`report:${this.name}`, async (lock) => {
      if (lock.signal.aborted) throw new Error('stopped');
    });
  }

  // These cannot: a lock that others have, no key, a refused key, a routine from elsewhere, a `this` of its own.
  async read(): Promise<string | undefined> {
    const lock = await redlock.acquire(['report'], 5000);
    const other = await acquire('other');
    await other?.release();
    return lock.value;
  }

  async nothing(): Promise<void> {
    await redlock.using([], 5000, async () => {});
  }

  async tagged(): Promise<void> {
    await redlock.using(['{report}:1'], 5000, async () => {});
    await redlock.using([`{report}:${this.name}`], 5000, async () => {});
    await redlock.using(['report', 'a<b'], 5000, async () => {});
    await redlock.using(['/reports/:id'], 5000, async () => {});
    await redlock.using([`/reports/:${this.name}`], 5000, async () => {});
    await redlock.using(['{report}:' + this.name], 5000, async () => {});
    await redlock.using([TAGGED], 5000, async () => {});
  }

  async composed(make: () => () => Promise<void>): Promise<void> {
    await redlock.using(['report'], 5000, make());
  }

  async inFunction(): Promise<void> {
    const later = async function (): Promise<void> {
      await redlock.using(['report'], 5000, async () => {});
    };
    await later();
  }
}
