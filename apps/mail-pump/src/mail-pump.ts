import {
  Injectable,
  Logger,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
} from '@nestjs/common';
import { type Leadership, type Lock, LockService } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { Outbox } from './outbox.js';

const IDLE_MS = 50;

/** Sends the mail of the outbox in order, each once: so only one process may do it at a time. */
@Injectable()
export class MailPump implements OnApplicationBootstrap, OnModuleDestroy {
  readonly #logger = new Logger(MailPump.name);
  #leadership: Leadership | undefined;

  constructor(
    private readonly locks: LockService,
    private readonly outbox: Outbox,
  ) {}

  onApplicationBootstrap(): void {
    this.#leadership = this.locks.lead('mail-pump', (signal, lock) => this.#pump(signal, lock));
  }

  /** Waits for the mail that is being sent, before what sending needs is closed. */
  async onModuleDestroy(): Promise<void> {
    await this.#leadership?.resign();
  }

  async #pump(signal: AbortSignal, lock: Lock): Promise<void> {
    while (!signal.aborted) {
      const mail = await this.outbox.first();
      if (mail === undefined) {
        await sleep(IDLE_MS, undefined, { signal }); // throws when the signal aborts, as it may
        continue;
      }
      lock.assertHeld(); // right before what cannot be undone
      this.#logger.log(`sent ${mail}`);
      await this.outbox.remove(mail);
    }
  }
}
