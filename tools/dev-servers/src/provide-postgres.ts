import { startContainer } from './container-engine.js';
import { PostgresServer } from './postgres-server.js';

/** A PostgreSQL that may be used until `stop()`. */
export interface ProvidedPostgres {
  readonly url: string;
  /**
   * Where it came from. A server that one of the two variables names belongs to the caller, and may hold other data.
   */
  readonly source: 'DATABASE_URL' | 'POSTGRES_URL' | 'container' | 'binary';
  /** Stops what was started. A server that one of the two variables names is left as it is. */
  stop(): Promise<void>;
}

/**
 * Provides a PostgreSQL server: the one that `DATABASE_URL` or `POSTGRES_URL` names, otherwise a container, otherwise
 * the PostgreSQL that npm installed with this repository.
 *
 * @throws Error that names the ways to get one if there is none.
 */
export async function providePostgres(): Promise<ProvidedPostgres> {
  for (const source of ['DATABASE_URL', 'POSTGRES_URL'] as const) {
    const url = process.env[source];
    if (url) return { url, source, stop: () => Promise.resolve() };
  }

  const container = await startContainer({
    image: 'postgres:18-alpine',
    port: 5432,
    environment: { POSTGRES_HOST_AUTH_METHOD: 'trust' },
    // The image first starts a server for its set-up scripts, and then the real one.
    readyLog: { text: 'database system is ready to accept connections', times: 2 },
  });
  if (container) {
    return {
      url: `postgres://postgres@${container.host}:${container.port}/postgres`,
      source: 'container',
      stop: () => container.stop(),
    };
  }

  const server = await PostgresServer.start();
  return { url: server.url, source: 'binary', stop: () => server.stop() };
}
