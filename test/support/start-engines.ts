import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { WithLockOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import type { StoreMessage } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { FakeClock } from './fake-clock.js';

/** With the default lease, calls that wait and hold look every five seconds, here without a random delay. */
export const INTERVAL_MS = 5_000;
export const WAIT: WithLockOptions = { waitMs: 60_000 };

/** What the services say to each other, of which a test may lose some. */
class Messages extends InMemoryLocks {
  isLost: (message: StoreMessage) => boolean = () => false;
  readonly sent: StoreMessage[] = [];

  override send(processId: string | undefined, message: StoreMessage): void {
    this.sent.push(message);
    if (!this.isLost(message)) super.send(processId, message);
  }
}

/** Lock services that share a store in memory. @param processes how many */
export function startEngines(processes = 1) {
  const clock = new FakeClock();
  const locks = new Messages(clock);
  const events: LockEvent[] = [];
  const stores = Array.from({ length: processes }, () => new InMemoryLockStore(locks, 30_000));
  const engines = stores.map((store) => {
    const report = (event: LockEvent): void => void events.push(event);
    const options = resolveServiceOptions({});
    return new LockEngine({ store, options, report, clock, random: () => 0 });
  });
  const [engine] = engines as [LockEngine];
  const deadlocks = () => events.filter(({ type }) => type === 'deadlock');
  return { clock, locks, stores, engines, engine, deadlocks };
}

/** What each call has returned, or why it has failed. */
export async function outcomes(calls: readonly Promise<string>[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(calls);
  return settled.map((it) => (it.status === 'fulfilled' ? it.value : (it.reason as unknown)));
}
