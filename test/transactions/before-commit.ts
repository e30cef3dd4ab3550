import pg from 'pg';
import { afterTest } from '../support/after-test.js';

/** A client class of node-postgres. Some libraries have their own copy. */
export type PgClientClass = Pick<typeof pg.Client, 'prototype'>;

type Query = (this: object, ...args: unknown[]) => unknown;

/**
 * Calls `act` once, right before a COMMIT is passed to a client of node-postgres, whichever library sends it and
 * whatever observes the client.
 */
export function beforeCommit(act: () => void, { prototype }: PgClientClass = pg.Client): void {
  const own = Object.getOwnPropertyDescriptor(prototype, 'query') as PropertyDescriptor;
  /** The replacements that were assigned to `query` of a client. */
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
