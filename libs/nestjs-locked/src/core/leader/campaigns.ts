import { assertIsFunction } from '../arguments.js';
import { currentTransaction } from '../calls/transaction-registry.js';
import { assertLockKey } from '../keys/lock-key.js';
import type { Leadership, LeaderWork, LeadOptions } from '../leadership.js';
import { LockAbortedError, LockConfigError, LockInTransactionError } from '../lock.errors.js';
import { resolveLeadOptions } from '../resolved.options.js';
import { Campaign, type CampaignParts } from './campaign.js';

/** The campaigns of one lock service: one for each key. */
export class Campaigns {
  readonly #engine: CampaignParts;
  readonly #byKey = new Map<string, Campaign>();
  #isClosed = false;

  constructor(engine: CampaignParts) {
    this.#engine = engine;
  }

  /** @throws LockKeyError · LockConfigError · LockInTransactionError · LockAbortedError during shutdown */
  begin(key: string, options: LeadOptions, work: LeaderWork): Leadership {
    assertLockKey(key);
    const resolved = resolveLeadOptions(options);
    assertIsFunction(work, `locks.lead('${key}', async (signal) => …)`);
    if (currentTransaction() !== undefined) {
      throw new LockInTransactionError(
        `Cannot campaign for '${key}' inside an open transaction, which the campaign would outlive: call lead after it, such as in onApplicationBootstrap`,
        key,
      );
    }
    if (this.#isClosed) {
      throw new LockAbortedError(
        `Cannot campaign for '${key}': the application is shutting down`,
        key,
      );
    }
    if (this.#byKey.has(key)) {
      throw new LockConfigError(
        `Cannot campaign for '${key}' twice in one lock service, because its leader runs once in a process: await done of the first campaign, or take another key`,
        key,
      );
    }
    const campaign = new Campaign(this.#engine, key, resolved, work);
    this.#byKey.set(key, campaign);
    void campaign.done.then(() => this.#byKey.delete(key));
    return campaign;
  }

  /** Ends all of them; each lock is released when its work has ended. */
  close(): void {
    this.#isClosed = true;
    for (const campaign of this.#byKey.values())
      campaign.end('closed', `The application is closing; '${campaign.key}' needs another leader`);
  }
}
