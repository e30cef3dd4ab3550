import type {
  StoreListener,
  StoreMessage,
} from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { MessageLog } from './message-log.js';

/** The events that a store has reported to its listener, in order. */
export class StoreEvents implements StoreListener {
  readonly log = new MessageLog<StoreMessage | 'reconnected' | 'inboxLost'>();

  message(message: StoreMessage): void {
    this.log.add(message);
  }

  reconnected(): void {
    this.log.add('reconnected');
  }

  mayEvict(): void {}

  storeLost(): void {}

  storeBack(): void {}

  inboxLost(): void {
    this.log.add('inboxLost');
  }

  next(limitMs?: number): Promise<StoreMessage | 'reconnected' | 'inboxLost'> {
    return this.log.next(limitMs);
  }
}
