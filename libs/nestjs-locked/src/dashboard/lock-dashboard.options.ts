import type { IncomingMessage } from 'node:http';
import { must, type OptionTable } from '../core/option.js';
import type { DashboardRole } from './dashboard-messages.js';

/** Somebody at the dashboard. */
export interface DashboardOperator {
  /** `read` may look, `admin` may release locks as well. */
  readonly role: DashboardRole;
  /** For the log of what operators did. @default none */
  readonly name?: string | undefined;
}

/** What `authorize` answers: who it is, or a false value for somebody who may not even look. */
export type DashboardAccess = DashboardOperator | DashboardRole | false | null | undefined;

/** The options of `LockDashboardModule`. */
export interface LockDashboardOptions {
  /** Where the page is, below the global prefix: `/locks`. */
  readonly path: string;
  /**
   * Says who asks, for every request. It is called with the request of Express or, under Fastify, with that of Node.js
   * (`request.raw` in a handler). The dashboard is closed unless this opens it. If it throws, the answer is 500.
   *
   * @example authorize: ({ headers }) => (isSecret(headers.authorization) ? 'admin' : undefined)
   */
  readonly authorize: (request: IncomingMessage) => DashboardAccess | Promise<DashboardAccess>;
  /**
   * The header `WWW-Authenticate` of the answer to somebody who may not look, whose status is then 401: with
   * `Basic realm="locks"`, browsers ask for a name and a password. @default none, and the status is 403
   */
  readonly challenge?: string;
  /** The `name` of the lock module, if there are several. @default the one without a name */
  readonly service?: string;
}

const TO_OPEN =
  "a function that says who asks: (request) => 'read', 'admin', or undefined for nobody; without one, the dashboard stays closed. On your own machine and in tests, open it with () => 'admin'";

export const DASHBOARD_OPTIONS: OptionTable<LockDashboardOptions> = {
  path: {
    isRequired: true,
    check: must(
      "a path without the global prefix, such as '/locks', made of letters, digits and - _ .",
      (value) => typeof value === 'string' && /^(?:\/[\w-][\w.-]*)+$/.test(value),
    ),
    otherNames: ['route', 'url'],
  },
  authorize: {
    isRequired: true,
    check: must(TO_OPEN, (value) => typeof value === 'function'),
    otherNames: ['auth', 'guard', 'authorise'],
  },
  challenge: {
    check: must(
      `a header WWW-Authenticate on one line, such as 'Basic realm="locks"'`,
      (value) => typeof value === 'string' && /^[\x20-\x7e]+$/.test(value),
    ),
  },
  service: {
    check: must(
      "the name given to RedisLockModule.forRoot, such as 'billing'; leave it out for the module without a name",
      (value) => typeof value === 'string' && value !== '',
    ),
    otherNames: ['name', 'servicename'],
  },
};
