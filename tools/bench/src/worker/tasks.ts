import { type OpenLocks } from '../adapters/adapter.js';
import { adapterOf } from '../adapters/index.js';
import { type Load, type LoadResult, runLoad } from './load.js';
import { MESSAGE_TASKS } from './message-tasks.js';
import { SCALE_TASKS } from './scale-tasks.js';
import type { openTransactions, TransactionApplication } from './transaction-application.js';

let locks: OpenLocks | undefined;
let transact: Awaited<ReturnType<typeof openTransactions>> | undefined;

/** What a worker can be asked to do. Each task gets and gives what IPC can carry. */
export const TASKS = {
  async open({ adapter, url }: { readonly adapter: string; readonly url: string }): Promise<void> {
    locks = await adapterOf(adapter).open(url);
  },

  load(load: Load): Promise<LoadResult> {
    if (locks === undefined) throw new Error('The locks of this process are not open');
    return runLoad(locks, load);
  },

  async openTransactions(application: TransactionApplication): Promise<void> {
    const { openTransactions } = await import('./transaction-application.js');
    transact = await openTransactions(application);
  },

  transact({ count, keys }: { readonly count: number; readonly keys: number }) {
    if (transact === undefined) throw new Error('The application of this process is not open');
    return transact(count, keys);
  },

  ...MESSAGE_TASKS,
  ...SCALE_TASKS,
};

export type TaskName = keyof typeof TASKS;
export type TaskInput<Name extends TaskName> = Parameters<(typeof TASKS)[Name]>[0];
export type TaskOutput<Name extends TaskName> = Awaited<ReturnType<(typeof TASKS)[Name]>>;

export interface Order {
  readonly task: TaskName;
  readonly input: unknown;
}

export type Answer = { readonly output: unknown } | { readonly error: string };
