import type { AskedHolder } from '../core/deadlocks/holder-questions.js';
import { presentCall, withCall } from '../core/deadlocks/present-call.js';
import { LockStoreError } from '../core/lock.errors.js';
import { holderOf, type LockInspector } from '../core/store/lock-inspector.js';
import { lockState } from '../core/store/lock-state.js';
import { isReplyError } from '../redis/scripts/reply-error.js';
import type { Asked } from './command-line.js';
import { EXIT_CODE, type ExitCode } from './exit-code.js';
import type { LockReader } from './lock-reader.js';
import { inOrder, lockJson, lockLines, lockTable, shownHolder } from './lock-texts.js';
import type { LockView } from './lock-view.js';
import { shownJson, shownText } from './shown-text.js';
import { terminalSize } from './terminal-size.js';

/** Prints the locks that match the pattern. */
export async function list(reader: LockReader, { pattern, json }: Asked<'ls'>): Promise<ExitCode> {
  const locks = inOrder(await reader.list(pattern));
  if (json) for (const lock of locks) console.log(lockJson(lock));
  else if (locks.length === 0) console.error('No lock is held.');
  else {
    const { columns = Infinity } = terminalSize() ?? {};
    console.log(lockTable(locks, columns).join('\n'));
  }
  return EXIT_CODE.done;
}

/** Asks the processes that have a key which of their calls have it now. @throws LockStoreError */
export type AskHolders = (key: string) => Promise<readonly AskedHolder[]>;

/** Prints one lock. */
export async function inspect(
  reader: LockReader,
  askHolders: AskHolders,
  { key, keyPrefix, json }: Asked<'inspect' | 'release'>,
): Promise<ExitCode> {
  const lock = await reader.read(key);
  if (lock === undefined) return free(key, keyPrefix, json);
  const { holder, since, problem } = await presentHolder(lock, askHolders);
  const present = { ...lock, holder, since };
  console.log(json ? lockJson(present) : lockLines(present).join('\n'));
  if (problem !== undefined) {
    console.error(
      `The call and its time are those for which the process got the lease, and another call may have it now: ${shownText(problem)}.`,
    );
  }
  return EXIT_CODE.done;
}

/** @returns with the reason why only what Redis says is known, if so */
async function presentHolder(
  lock: LockView,
  askHolders: AskHolders,
): Promise<Pick<LockView, 'holder' | 'since'> & { readonly problem?: string }> {
  const { key, value, holder, since } = lock;
  if (holder === undefined) return { holder, since };
  try {
    const [told] = await askHolders(key);
    const call = presentCall(value, told);
    if (call !== undefined) return { holder: withCall(holder, call), since: call?.since ?? since };
    return { holder, since, problem: 'the process has not said' };
  } catch (error) {
    if (!(error instanceof LockStoreError)) throw error;
    return { holder, since, problem: error.message.replace(/\.$/, '') };
  }
}

/** Takes a lock away from its holder, or says who would lose it. */
export async function release(
  reader: LockReader,
  askHolders: AskHolders,
  inspector: Pick<LockInspector, 'revoke'>,
  asked: Asked<'release'>,
): Promise<ExitCode> {
  const { key, keyPrefix, json, isConfirmed, leaseId } = asked;
  if (!isConfirmed) {
    const code = await inspect(reader, askHolders, asked);
    if (code === EXIT_CODE.done)
      console.error(
        'Nothing was released. With --yes, the lock is taken away from whoever has it then: the signal of that call aborts, and the next caller enters a second later, even if the work of the first one still goes on.',
      );
    return EXIT_CODE.refused;
  }
  const meant = leaseId === undefined ? undefined : await reader.read(key);
  if (leaseId !== undefined && meant?.leaseId !== leaseId) return over(key, json);
  const revoked = await inspector.revoke(key, meant?.value).catch(doubtful);
  if (revoked === undefined) return meant ? over(key, json) : free(key, keyPrefix, json);
  const holder = holderOf(revoked);
  if (json) console.log(shownJson(JSON.stringify({ key, released: true, holder: holder ?? null })));
  else {
    const label = holder?.label === undefined ? '' : `, ${shownText(holder.label)}`;
    const who = shownHolder({ state: lockState(revoked.value), holder });
    console.log(
      `Released ${shownText(key)}, held by ${who}${label}. The next caller enters in a second.`,
    );
  }
  return EXIT_CODE.done;
}

function free(key: string, keyPrefix: string, json: boolean): ExitCode {
  if (json) console.log(lockJson(undefined));
  const advice =
    keyPrefix !== '' && key.startsWith(keyPrefix)
      ? `; write keys without the keyPrefix: ${shownText(key.slice(keyPrefix.length))}`
      : '';
  console.error(`Nobody holds ${shownText(key)}${advice}.`);
  return EXIT_CODE.refused;
}

function over(key: string, json: boolean): ExitCode {
  if (json) console.log(lockJson(undefined));
  console.error(`That lease of ${shownText(key)} is over; nothing was released.`);
  return EXIT_CODE.refused;
}

/** Without an answer of Redis, the lock may have been released. */
function doubtful(error: unknown): never {
  if (!(error instanceof LockStoreError) || isReplyError(error.cause)) throw error;
  const { key } = error;
  const message = error.message.replace(/\.$/, '');
  throw new LockStoreError(`${message}; it may have been done: look with inspect`, key, {
    cause: error,
  });
}
