import type { DashboardOperator } from 'nestjs-locked/dashboard';
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/**
 * Who may see the dashboard, and take locks away: whoever knows the password. Browsers ask for it and send it along.
 * @param password nobody, if there is none
 */
export function operatorsWith(password: string | undefined) {
  return ({ headers }: IncomingMessage): DashboardOperator | undefined => {
    if (password === undefined || password === '') return undefined;
    const expected = `Basic ${Buffer.from(`operator:${password}`).toString('base64')}`;
    const isKnown = timingSafeEqual(digest(headers.authorization ?? ''), digest(expected));
    return isKnown ? { role: 'admin', name: 'operator' } : undefined;
  };
}

/** Of the same length for every text, so that the comparison takes the same time. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
