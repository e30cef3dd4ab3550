import { byBytes } from '../keys/key-order.js';
import { DEFAULT_KEY_PREFIX } from '../keys/key-prefix.js';
import { keyProblem } from '../keys/lock-key.js';
import { LockConfigError } from '../lock.errors.js';
import { shownValue } from '../runtime/shown-value.js';
import { HIGHEST_NUMBER } from '../store/fence-block.js';
import { modeOf } from '../store/lease-token.js';

/** A lease that was left to whoever has its token. */
export interface HandedOverLease {
  readonly key: string;
  readonly token: string;
  /** The highest fencing number used under it. */
  readonly used: number;
}

/** What precedes the text of this version. */
const MARK = 'lock1.';

/** @param keyPrefix of the service; undefined for the default */
export function writtenHandOff(
  keyPrefix = DEFAULT_KEY_PREFIX,
  leases: readonly HandedOverLease[],
): string {
  const content = [keyPrefix, ...leases.map(({ key, token, used }) => [key, token, used])];
  return MARK + Buffer.from(JSON.stringify(content)).toString('base64url');
}

/**
 * @param keyPrefix of the service that adopts; undefined for the default
 * @returns the leases, in the order of their keys
 * @throws LockConfigError unless `detach()` of a service with this prefix has written the text
 */
export function readHandOff(
  text: unknown,
  keyPrefix = DEFAULT_KEY_PREFIX,
): readonly HandedOverLease[] {
  const [prefix, ...leases] = contentOf(text);
  if (typeof prefix !== 'string' || leases.length === 0) throw unreadable(text);
  const read = leases.map((lease) => leaseIn(lease) ?? refuse(text));
  if (prefix !== keyPrefix) {
    throw new LockConfigError(
      `Cannot adopt lock '${read[0]?.key}': it was detached with keyPrefix '${prefix}', and this service has '${keyPrefix}'; adopt it with the service of the same module, or give both the same keyPrefix`,
    );
  }
  if (new Set(read.map(({ key }) => key)).size < read.length) throw unreadable(text);
  return read.sort((a, b) => byBytes(a.key, b.key));
}

function contentOf(text: unknown): readonly unknown[] {
  if (typeof text !== 'string' || !text.startsWith(MARK)) throw unreadable(text);
  try {
    const json = Buffer.from(text.slice(MARK.length), 'base64url').toString();
    const content: unknown = JSON.parse(json);
    return Array.isArray(content) ? content : [];
  } catch {
    throw unreadable(text);
  }
}

function leaseIn(lease: unknown): HandedOverLease | undefined {
  if (!Array.isArray(lease)) return undefined;
  const [key, token, used] = lease as unknown[];
  if (typeof key !== 'string' || keyProblem(key) !== undefined) return undefined;
  if (typeof token !== 'string' || modeOf(token) !== 'exclusive') return undefined;
  const isNumber = Number.isSafeInteger(used) && (used as number) <= HIGHEST_NUMBER;
  return isNumber ? { key, token, used: used as number } : undefined;
}

function refuse(text: unknown): never {
  throw unreadable(text);
}

function unreadable(text: unknown): LockConfigError {
  const shown = typeof text === 'string' ? `a text of ${text.length} characters` : shownValue(text);
  return new LockConfigError(
    `Cannot adopt a lock from ${shown}: it is not what lock.detach() of this version gives; pass that text on whole and unchanged`,
  );
}
