import { Injectable, Logger } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { Locked } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { ReportArchive } from './report-archive.js';
import { Settings } from './settings.js';
import { tickAt } from './tick.js';

/** Every replica has the same cron. The key names the tick, so that each tick is one lock of its own. */
@Injectable()
export class ReportService {
  readonly #logger = new Logger(ReportService.name);

  constructor(
    private readonly archive: ReportArchive,
    private readonly settings: Settings,
  ) {}

  @Cron('*/3 * * * * *')
  async onTick(): Promise<void> {
    const tick = tickAt(Date.now());
    if (this.settings.ifKilled === 'leave') await this.write(tick);
    else await this.writeUnlessWritten(tick);
  }

  /**
   * At most once. The key stays taken for a minute, so that a replica whose clock is behind does not find it free
   * again. If the process is killed while it writes, nobody writes this report.
   */
  @Locked('nightly-report:<tick>', { waitMs: 0, onBusy: 'skip', holdAtLeastMs: 60_000 })
  async write(tick: string): Promise<void> {
    await this.#write(tick);
  }

  /**
   * At least once. The others wait for the first one and look whether its report is there. If the process is killed,
   * the key is free after `leaseMs`, and the next one writes the report.
   */
  @Locked('nightly-report:<tick>', { waitMs: 60_000, onBusy: 'skip', leaseMs: 2_000 })
  async writeUnlessWritten(tick: string): Promise<void> {
    if (await this.archive.has(tick)) return;
    await this.#write(tick);
  }

  async #write(tick: string): Promise<void> {
    this.#logger.log(`report ${tick} begins`);
    await sleep(this.settings.reportTakesMs);
    await this.archive.add(tick, `written by process ${process.pid}`);
    this.#logger.log(`report ${tick} is done`);
  }
}
