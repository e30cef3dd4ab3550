import { LockConfigError } from '../lock.errors.js';
import type { KeyTerms } from '../lock-mode.js';
import type { Hold } from '../queue/hold.js';

/**
 * Whether a call may ask for a key that a call around it has: it would wait for itself if it wanted more than that one
 * has.
 * @param around the hold of the call around it
 * @param joins whether it joins that hold; otherwise, it wants a lock of its own
 * @throws LockConfigError
 */
export function assertMayNest(around: Hold, wanted: KeyTerms, joins: boolean): void {
  if (around.isShared && wanted.mode !== 'shared')
    throw refusal(around, wanted, "with mode: 'shared'");
  if (!around.isPermit) return;
  const { permits, weight } = around.options;
  const has = `with permits: ${String(permits)}${weight === 1 ? '' : `, weight: ${weight}`}`;
  if (wanted.mode !== 'permit') throw refusal(around, wanted, has);
  if (joins && (wanted.weight ?? 1) > weight) throw refusal(around, wanted, has);
}

function refusal({ key, label }: Hold, { mode, weight }: KeyTerms, has: string): LockConfigError {
  const by = label === undefined ? '' : ` (${label})`;
  const how = { exclusive: 'exclusively', shared: "with mode: 'shared'" };
  const wanted = mode === 'permit' ? `with weight: ${weight} of its permits` : how[mode];
  return new LockConfigError(
    `Cannot lock '${key}' ${wanted} here: the call around this one${by} has it ${has}, so this one would wait for it, and it for this one; lock the key like this there, or here after that call has ended`,
    key,
  );
}
