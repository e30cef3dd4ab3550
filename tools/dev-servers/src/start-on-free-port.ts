import { freePort } from './free-port.js';
import { ServerStartError } from './server-process.js';

const ATTEMPTS = 5;

/**
 * Starts a server on a free port, and on another one if another process was quicker to take it.
 *
 * @param start rejects with ServerStartError if the server does not start; `attempt` counts from 1
 * @param findPort finds a port that is free for the server
 */
export async function startOnFreePort<Server>(
  start: (port: number, attempt: number) => Promise<Server>,
  findPort: () => Promise<number> = freePort,
): Promise<Server> {
  for (let attempt = 1; ; attempt += 1) {
    const port = await findPort();
    try {
      return await start(port, attempt);
    } catch (error) {
      if (attempt >= ATTEMPTS || !isPortTaken(error)) throw error;
    }
  }
}

function isPortTaken(error: unknown): boolean {
  return error instanceof ServerStartError && error.log.includes('Address already in use');
}
