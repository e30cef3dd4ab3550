import { join } from 'node:path';
import { ServerProcess, type ServerProcessOptions } from './server-process.js';
import { startOnFreePort } from './start-on-free-port.js';
import { createTemporaryFolder, type TemporaryFolder } from './temporary-folder.js';

const START_LIMIT_MS = 30_000;

/** How a server is started on its data. */
export interface DatabaseLaunch extends Omit<ServerProcessOptions, 'folder' | 'logFile'> {
  readonly isReady: (pid: number) => Promise<boolean>;
}

/** A database server of our own on 127.0.0.1, on data of its own. */
export abstract class DatabaseServer {
  constructor(
    readonly port: number,
    private readonly process: ServerProcess,
    private readonly folder: TemporaryFolder,
  ) {}

  abstract get url(): string;

  get pid(): number {
    return this.process.pid;
  }

  /** Ends the server, cutting open connections, and removes its data; a second call does nothing. */
  async stop(): Promise<void> {
    await this.process.end();
    await this.folder.remove();
  }
}

/**
 * Makes new data, starts a server on it and waits until it answers.
 *
 * @param prepare makes the data in the folder, and gives back how a server on it is started
 */
export async function startDatabase<Server extends DatabaseServer>(
  Kind: new (port: number, process: ServerProcess, folder: TemporaryFolder) => Server,
  prepare: (folder: string) => Promise<(port: number, logFile: string) => DatabaseLaunch>,
): Promise<Server> {
  const folder = createTemporaryFolder('database-server-');
  try {
    const launch = await prepare(folder.path);
    return await startOnFreePort(async (port, attempt) => {
      const logFile = join(folder.path, `server-${attempt}.log`);
      const { isReady, ...options } = launch(port, logFile);
      const server = new ServerProcess({ ...options, folder: folder.path, logFile });
      await server.waitUntilReady(() => isReady(server.pid), START_LIMIT_MS);
      return new Kind(port, server, folder);
    });
  } catch (error) {
    await folder.remove();
    throw error;
  }
}
