import type { InboxMessage, StoreMessage } from '../../../core/store/lock-store.js';

/** The message that we publish to our own inbox. */
export interface ProbeMessage {
  readonly kind: 'probe';
  readonly id: string;
}

/**
 * Reads what the scripts publish: g is a grant, p that of a permit with a slot other than 0, w says that the key is
 * wanted, h that the waiter is at the head of the queue, and r that the lease was revoked; q is a question about the
 * call that has the key, and a an answer to one. The key, or the text of an answer, comes last because it is the only
 * part that may contain spaces. A process ignores what its version does not know.
 *
 *     g <token> <fence> <blockEnd> <waiters> <acceptMs> <key>
 *     p <token> <slot> <fence> <blockEnd> <waiters> <acceptMs> <key>
 *     w <token> <key>
 *     h <token> <ms> <key>
 *     r <token> <key>
 *     q <token> <asking process> <id> <key>
 *     a <id> <text>
 *     probe <id>
 *
 * @returns undefined for anything else, because any client with the right to publish can send arbitrary messages
 */
export function parseInboxMessage(text: string): StoreMessage | ProbeMessage | undefined {
  const [kind, token, ...rest] = text.split(' ');
  if (token === undefined) return undefined;
  switch (kind) {
    case 'g':
      return grantOf(token, rest);
    case 'p': {
      const slot = Number(rest[0]);
      const grant = grantOf(token, rest.slice(1));
      return grant !== undefined && Number.isFinite(slot) ? { ...grant, slot } : undefined;
    }
    case 'w':
      return { kind: 'wanted', token, key: rest.join(' ') };
    case 'r':
      return { kind: 'revoked', token, key: rest.join(' ') };
    case 'h': {
      const ms = Number(rest[0]);
      return Number.isFinite(ms)
        ? { kind: 'head', token, ms, key: rest.slice(1).join(' ') }
        : undefined;
    }
    case 'q': {
      const [from, id, ...key] = rest;
      return from === undefined || id === undefined
        ? undefined
        : { kind: 'question', token, from, id, key: key.join(' ') };
    }
    case 'a':
      return { kind: 'answer', id: token, text: rest.join(' ') };
    case 'probe':
      return { kind: 'probe', id: token };
    case undefined:
    default:
      return undefined;
  }
}

type Grant = Extract<InboxMessage, { kind: 'grant' }>;

function grantOf(token: string, rest: readonly string[]): Grant | undefined {
  const [fence, blockEnd, waiters, acceptMs] = rest.slice(0, 4).map(Number);
  if (![fence, blockEnd, waiters, acceptMs].every(Number.isFinite)) return undefined;
  return {
    kind: 'grant',
    token,
    fence: fence as number,
    blockEnd: blockEnd as number,
    waiters: waiters as number,
    acceptMs: acceptMs as number,
    key: rest.slice(4).join(' '),
  };
}
