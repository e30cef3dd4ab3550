/**
 * One PostgreSQL, MariaDB, MySQL and Redis server each for a whole jest run. Spec files run in worker processes, so
 * jest's main process owns the servers, and starts each when a spec file first requests its URL, as `databases.ts`
 * does. `cleanUpAtExit` of dev-servers ends them if a signal ends jest.
 */
import {
  hasMariaDb,
  MySqlServer,
  provideMariaDb,
  providePostgres,
  provideRedis,
} from 'dev-servers';
import { once } from 'node:events';
import { createServer } from 'node:http';

const providers = new Map([
  ['/postgres', providePostgres],
  ['/redis', provideRedis],
  ['/mariadb', provideInstalledMariaDb],
  ['/mysql', () => MySqlServer.start()],
]);

/** Promises of the requested servers, by path. */
const provided = new Map();
let reception;

/** Jest's globalSetup. */
export async function setUp() {
  reception = createServer(({ url }, response) => {
    serverAt(url).then(
      (server) => response.end(server.url),
      (error) => response.writeHead(500).end(error.message),
    );
  });
  reception.listen(0, '127.0.0.1');
  await once(reception, 'listening');
  process.env.TEST_SERVERS_URL = `http://127.0.0.1:${reception.address().port}`;
}

/** Jest's globalTeardown. */
export async function tearDown() {
  reception.close();
  reception.closeAllConnections();
  const servers = await Promise.allSettled(provided.values());
  provided.clear();
  await Promise.all(servers.map(({ value }) => value?.stop()));
}

function serverAt(path) {
  if (!provided.has(path)) provided.set(path, providers.get(path)());
  return provided.get(path);
}

async function provideInstalledMariaDb() {
  if (!hasMariaDb()) throw new Error('MariaDB is not installed: use describeWithMariaDb');
  return provideMariaDb();
}
