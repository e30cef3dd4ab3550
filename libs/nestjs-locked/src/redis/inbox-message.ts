import type { InboxMessage } from '../core/lock-store.js';

/**
 * Reads what the scripts publish. The name comes last because it is the only part that may contain blanks.
 *
 *     g <token> <fence> <blockEnd> <waiters> <acceptMs> <name>
 *     w <token> <name>
 *     h <token> <ms> <name>
 *     r <token> <name>
 *
 * @returns undefined for anything else: whoever may publish can write what he likes
 */
export function parseInboxMessage(text: string): InboxMessage | 'probe' | undefined {
  if (text === 'probe') return 'probe';
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
    case undefined:
    default:
      return undefined;
  }
}
