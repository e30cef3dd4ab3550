import type { InboxMessage } from '../core/lock-store.js';

/** What we publish to our own inbox. */
export interface ProbeMessage {
  readonly kind: 'probe';
  readonly id: string;
}

/**
 * Reads what the scripts publish. The name comes last because it is the only part that may contain blanks.
 *
 *     g <token> <fence> <blockEnd> <waiters> <acceptMs> <name>
 *     w <token> <name>
 *     h <token> <ms> <name>
 *     r <token> <name>
 *     probe <id>
 *
 * @returns undefined for anything else: whoever may publish can write what they like
 */
export function parseInboxMessage(text: string): InboxMessage | ProbeMessage | undefined {
  const [kind, token, ...rest] = text.split(' ');
  if (token === undefined) return undefined;
  switch (kind) {
    case 'g': {
      const [fence, blockEnd, waiters, acceptMs] = rest.slice(0, 4).map(Number);
      if (![fence, blockEnd, waiters, acceptMs].every(Number.isFinite)) return undefined;
      return {
        kind: 'grant',
        token,
        fence: fence as number,
        blockEnd: blockEnd as number,
        waiters: waiters as number,
        acceptMs: acceptMs as number,
        name: rest.slice(4).join(' '),
      };
    }
    case 'w':
      return { kind: 'wanted', token, name: rest.join(' ') };
    case 'r':
      return { kind: 'revoked', token, name: rest.join(' ') };
    case 'h': {
      const ms = Number(rest[0]);
      return Number.isFinite(ms)
        ? { kind: 'head', token, ms, name: rest.slice(1).join(' ') }
        : undefined;
    }
    case 'probe':
      return { kind: 'probe', id: token };
    case undefined:
    default:
      return undefined;
  }
}
