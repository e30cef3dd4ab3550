import type { PgClientClass } from '../transactions/before-commit.js';
import type { Runs } from '../transactions/stock.js';

export type Isolation = 'read committed' | 'repeatable read' | 'serializable';

/** A way to open lock-aware transactions. */
export interface OpenedOrm {
  transaction<R>(body: (tx: Runs) => Promise<R>, isolation?: Isolation): Promise<R>;
  close(): Promise<unknown>;
}

export interface OrmUnderTest<Opened = OpenedOrm> {
  readonly name: string;
  /** @param url of a PostgreSQL database */
  readonly open: (url: string) => Promise<Opened>;
  /** As passed to `lockAwareAdapter`. @default true */
  readonly survivesDisconnect?: boolean;
  /** Whether its driver can time out a statement that the server still runs (`query_timeout`). @default true */
  readonly timesOut?: boolean;
  /** The client class of its own copy of node-postgres. @default that of the shared copy */
  readonly Client?: PgClientClass;
}
