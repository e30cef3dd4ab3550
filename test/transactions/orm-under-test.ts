import type { PgClientClass } from './before-commit.js';
import type { Runs } from './stock.js';

export type Isolation = 'read committed' | 'repeatable read' | 'serializable';

/** A way to open transactions that the locks know of. */
export interface OpenedOrm {
  transaction<R>(body: (tx: Runs) => Promise<R>, isolation?: Isolation): Promise<R>;
  close(): Promise<unknown>;
}

export interface OrmUnderTest<Opened = OpenedOrm> {
  readonly name: string;
  /** @param url of a PostgreSQL */
  readonly open: (url: string) => Promise<Opened>;
  /** As it is told to `lockAwareAdapter`. @default true */
  readonly survivesDisconnect?: boolean;
  /** Whether its driver can give up a statement that the server still runs: `query_timeout`. @default true */
  readonly timesOut?: boolean;
  /** The client of its own copy of node-postgres. @default that of the one copy for all */
  readonly Client?: PgClientClass;
}
