import type {
  InboxMessage,
  StoreListener,
} from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { MessageLog } from './message-log.js';

/** The events that a store has reported to its listener, in order. */
export class StoreEvents implements StoreListener {
  readonly log = new MessageLog<InboxMessage | 'reconnected' | 'inboxLost'>();

  message(message: InboxMessage): void {
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

  next(limitMs?: number): Promise<InboxMessage | 'reconnected' | 'inboxLost'> {
    return this.log.next(limitMs);
  }
}
