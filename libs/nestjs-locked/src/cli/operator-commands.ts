import type { AskedHolder } from '../core/deadlocks/holder-questions.js';
import { presentCall, withCall } from '../core/deadlocks/present-call.js';
import { LockStoreError } from '../core/lock.errors.js';
import type { LockHolder } from '../core/lock-info.js';
import { MOST_HOLDERS_ASKED } from '../core/store/holder-question.js';
import { modeOf } from '../core/store/lease-token.js';
import { holderOf, type LockInspector } from '../core/store/lock-inspector.js';
import { lockState } from '../core/store/lock-state.js';
import { tokensIn } from '../core/store/shared-value.js';
import { isReplyError } from '../redis/scripts/reply-error.js';
import type { Asked } from './command-line.js';
import { EXIT_CODE, type ExitCode } from './exit-code.js';
import type { LockReader } from './lock-reader.js';
import { callOf, inOrder, lockJson, lockLines, lockTable, shownHolder } from './lock-texts.js';
import type { LockView } from './lock-view.js';
import { shownJson, shownText } from './shown-text.js';
import { terminalSize } from './terminal-size.js';

/** Prints the locks that match the pattern. */
export async function list(
  reader: LockReader,
  { pattern, keyPrefix, json }: Asked<'ls'>,
): Promise<ExitCode> {
  const locks = inOrder(await reader.list(pattern));
  if (json) for (const lock of locks) console.log(lockJson(lock));
  else if (locks.length === 0)
    console.error(
      `No lock is held that matches ${shownText(pattern)}, with --prefix ${shownText(keyPrefix)}.`,
    );
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
  const { problem, ...present } = await withPresentCalls(lock, askHolders);
  console.log(json ? lockJson(present) : lockLines(present).join('\n'));
  if (problem !== undefined) {
    console.error(
      `The call and its time are those for which the process got the lease, and another call may have it now: ${shownText(problem)}.`,
    );
  }
  return EXIT_CODE.done;
}

/** @returns with the reason why only what Redis says is known of a holder, if so */
async function withPresentCalls(
  lock: LockView,
  askHolders: AskHolders,
): Promise<LockView & { readonly problem?: string }> {
  if (lock.holder === undefined) return lock;
  try {
    const asked = await askHolders(lock.key);
    const calls = tokensIn(lock.value).map((token) =>
      presentCall(
        token,
        asked.find((it) => it.token === token),
      ),
    );
    const holders = lock.holders.map((holder, i) => withCall(holder, calls[i]) as LockHolder);
    const present = { ...lock, holder: holders[0], holders, since: calls[0]?.since ?? lock.since };
    const isSaid = calls.slice(0, MOST_HOLDERS_ASKED).every((call) => call !== undefined);
    return isSaid ? present : { ...present, problem: 'the process has not said' };
  } catch (error) {
    if (!(error instanceof LockStoreError)) throw error;
    return { ...lock, problem: error.message.replace(/\.$/, '') };
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
        'Nothing was released. With --yes, the lock is taken away from whoever has it then, be it one call, or all readers or permits: their signals abort, and the next caller enters a second later, even if their work still goes on.',
      );
    return EXIT_CODE.refused;
  }
  const meant = leaseId === undefined ? undefined : await reader.read(key);
  if (leaseId !== undefined && meant?.leaseId !== leaseId) return over(key, json);
  const revoked = await inspector.revoke(key, meant?.value).catch(doubtful);
  if (revoked === undefined) return meant ? over(key, json) : free(key, keyPrefix, json);
  const holder = holderOf(revoked);
  const { value } = revoked;
  if (json) {
    const leases = tokensIn(value).length;
    console.log(shownJson(JSON.stringify({ key, released: true, holder: holder ?? null, leases })));
  } else {
    const call = callOf({ holder, value });
    const label = call === '' ? '' : `, ${shownText(call)}`;
    const mode = modeOf(tokensIn(value)[0] ?? '');
    const who = shownHolder({ state: lockState(value), mode, holder, value });
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
