import type { TestDatabase } from '../support/databases.js';
import { eventually } from '../support/eventually.js';

/** Creates a table in PostgreSQL: the COMMIT of a transaction that has written to it takes two seconds. */
export async function createSlowCommitTable(postgres: TestDatabase): Promise<void> {
  await postgres.query('CREATE TABLE slow (id int)');
  await postgres.query(
    `CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS
     'BEGIN PERFORM pg_sleep(2); RETURN NULL; END'`,
  );
  await postgres.query(
    `CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
     FOR EACH ROW EXECUTE FUNCTION slow_commit()`,
  );
}

/** Waits until connections of this database are committing, and terminates them. */
export function killCommits(postgres: TestDatabase): Promise<void> {
  return atCommits(postgres, 'pg_terminate_backend(pid)');
}

/** Waits until a connection of this database is committing. */
export function whenCommitting(postgres: TestDatabase): Promise<void> {
  return atCommits(postgres, 'pid');
}

/** Waits until the server has executed the ROLLBACK of a connection of this database; its answer may be on its way. */
export async function whenRolledBack(postgres: TestDatabase): Promise<void> {
  await eventually(async () => {
    const rolledBack = await postgres.query(
      `SELECT pid FROM pg_stat_activity
       WHERE upper(query) LIKE 'ROLLBACK%' AND state = 'idle' AND datname = current_database()`,
    );
    if (rolledBack.length === 0) throw new Error('No connection has rolled back');
  });
}

/** Waits until connections of this database are committing, and selects `selected` for them. */
async function atCommits(postgres: TestDatabase, selected: string): Promise<void> {
  await eventually(async () => {
    const committing = await postgres.query(
      `SELECT ${selected} FROM pg_stat_activity
       WHERE upper(query) LIKE 'COMMIT%' AND state = 'active' AND datname = current_database()`,
    );
    if (committing.length === 0) throw new Error('No connection is committing');
  });
}
