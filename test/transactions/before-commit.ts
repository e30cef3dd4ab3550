import pg from 'pg';
import { afterTest } from '../support/after-test.js';

/** The client of node-postgres: some libraries have a copy of their own. */
export type PgClientClass = Pick<typeof pg.Client, 'prototype'>;

type Query = (this: object, ...args: unknown[]) => unknown;

/**
 * Calls `act` once, right before a COMMIT is given to a client of node-postgres, whichever library does so and whatever
 * watches that client.
 */
export function beforeCommit(act: () => void, { prototype }: PgClientClass = pg.Client): void {
  const own = Object.getOwnPropertyDescriptor(prototype, 'query') as PropertyDescriptor;
  /** What has taken the place of `query` on a client. */
  const replaced = new WeakMap<object, Query>();
  let isDone = false;
  Object.defineProperty(prototype, 'query', {
    configurable: true,
    get(this: object): Query {
      const query = replaced.get(this) ?? (own.value as Query);
      return function (...args) {
        if (!isDone && isCommit(args[0])) {
          isDone = true;
          act();
        }
        return query.apply(this, args);
      };
    },
    set(this: object, query: Query) {
      replaced.set(this, query);
    },
  });
  afterTest(() => Object.defineProperty(prototype, 'query', own));
}

function isCommit(statement: unknown): boolean {
  const text = typeof statement === 'string' ? statement : (statement as { text?: unknown })?.text;
  return typeof text === 'string' && /^\s*COMMIT\b/i.test(text);
}
