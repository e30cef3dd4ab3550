import type { AcquireCommand, AcquireReply, LockStore } from '../core/store/lock-store.js';

/**
 * Takes keys that cannot be in one command, because they are in different slots of a cluster: one after the other, each
 * with a single try, and all or none. Of two calls that want some of the same keys at once, one gets all of its own,
 * because both begin at the same end.
 *
 * @returns `granted` for every command, or `busy` for every command, or `unknown` for every command: then some may have
 * been granted
 */
export async function acquireInTurn(
  store: Pick<LockStore, 'acquire' | 'release'>,
  commands: readonly AcquireCommand[],
): Promise<readonly AcquireReply[]> {
  const granted: AcquireReply[] = [];
  for (const command of commands) {
    const reply = await store.acquire(command);
    if (reply.kind === 'unknown') {
      const { cause, isLasting = false } = reply;
      return commands.map(() => ({ kind: 'unknown', cause, isLasting }));
    }
    if (reply.kind === 'granted') {
      granted.push(reply);
      continue;
    }
    const given = commands.slice(0, granted.length);
    const released = await Promise.all(
      given.map(({ key, token }) => store.release({ key, token, used: 0 })),
    );
    const failed = released.find((outcome) => outcome.kind === 'unknown');
    if (failed?.kind === 'unknown') return commands.map(() => failed);
    return commands.map((other) =>
      other === command ? reply : { kind: 'busy', remainingMs: 0, wasFree: true },
    );
  }
  return granted;
}
