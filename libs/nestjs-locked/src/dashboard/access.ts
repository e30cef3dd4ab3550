import type { IncomingMessage } from 'node:http';
import { LockConfigError } from '../core/lock.errors.js';
import { shownValue } from '../core/runtime/shown-value.js';
import type { DashboardRole } from './dashboard-messages.js';
import type { DashboardOperator } from './lock-dashboard.options.js';

/**
 * @param access the answer of `authorize`
 * @returns undefined for somebody who may not look
 * @throws LockConfigError for what is no answer, so that a mistake opens nothing
 */
export function operatorOf(access: unknown): DashboardOperator | undefined {
  if (access === undefined || access === null || access === false) return undefined;
  if (isRole(access)) return { role: access };
  const { role, name } = access as Partial<DashboardOperator>;
  if (isRole(role) && (name === undefined || typeof name === 'string')) return { role, name };
  throw new LockConfigError(
    `Invalid answer of authorize: ${shownValue(access)} must be 'read', 'admin', { role: 'admin', name: 'anna' }, or undefined for nobody`,
  );
}

function isRole(value: unknown): value is DashboardRole {
  return value === 'read' || value === 'admin';
}

/**
 * Whether a page of the same origin sends this request, so that no other site can let an operator's browser release a
 * lock. Browsers say so in a header that no page can set. Some do so only under HTTPS; then the origin must be that of
 * the server, of which a proxy may have ended HTTPS.
 */
export function isOfSameOrigin({ headers }: IncomingMessage): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin';
  const { origin } = headers;
  const host = headers.host ?? headers[':authority'];
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === host;
}

/** Whether a page of another site asks for data, which no page of ours does. */
export function isOfOtherSite({ headers }: IncomingMessage): boolean {
  return headers['sec-fetch-site'] === 'cross-site' || headers['sec-fetch-site'] === 'same-site';
}
