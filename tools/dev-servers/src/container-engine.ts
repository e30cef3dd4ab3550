import type { StartedTestContainer } from 'testcontainers';
import { get, type RequestOptions } from 'node:http';
import { homedir } from 'node:os';
import { join } from 'node:path';

const ANSWER_LIMIT_MS = 1_000;

export interface ContainerOptions {
  readonly image: string;
  /** The port inside the container. */
  readonly port: number;
  readonly environment?: Readonly<Record<string, string>>;
  readonly command?: readonly string[];
  /** The text in the log that says that the server is ready, and how many times it is printed until then. */
  readonly readyLog: { readonly text: string; readonly times: number };
}

/** A running container and where its port can be reached. */
export interface Container {
  readonly host: string;
  readonly port: number;
  /** Stops and removes the container. */
  stop(): Promise<void>;
}

/**
 * Starts a container. Returns undefined if no Docker engine answers within a second (a `docker` command without an
 * engine is common), or if the image cannot be obtained. A container that is not stopped is removed by Testcontainers'
 * own companion container.
 */
export async function startContainer(options: ContainerOptions): Promise<Container | undefined> {
  if (!(await containerEngineAnswers())) return undefined;
  const { GenericContainer, Wait } = await import('testcontainers');
  let started: StartedTestContainer;
  try {
    started = await new GenericContainer(options.image)
      .withExposedPorts(options.port)
      .withEnvironment({ ...options.environment })
      .withCommand([...(options.command ?? [])])
      .withWaitStrategy(Wait.forLogMessage(options.readyLog.text, options.readyLog.times))
      .start();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    process.stderr.write(`Docker could not start ${options.image} (${reason}): trying without\n`);
    return undefined;
  }
  return {
    host: started.getHost(),
    port: started.getMappedPort(options.port),
    stop: async () => {
      await started.stop();
    },
  };
}

async function containerEngineAnswers(): Promise<boolean> {
  const answers = await Promise.all(engineAddresses().map(ping));
  return answers.includes(true);
}

/** The places where Testcontainers looks for an engine as well. */
function engineAddresses(): RequestOptions[] {
  const { DOCKER_HOST, XDG_RUNTIME_DIR } = process.env;
  if (DOCKER_HOST) {
    const { protocol, pathname, hostname, port } = new URL(DOCKER_HOST);
    return [protocol === 'unix:' ? { socketPath: pathname } : { hostname, port: port || 2375 }];
  }
  return [
    '/var/run/docker.sock',
    ...(XDG_RUNTIME_DIR ? [join(XDG_RUNTIME_DIR, 'docker.sock')] : []),
    join(homedir(), '.docker/run/docker.sock'),
    join(homedir(), '.docker/desktop/docker.sock'),
  ].map((socketPath) => ({ socketPath }));
}

function ping(address: RequestOptions): Promise<boolean> {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(ANSWER_LIMIT_MS);
    const request = get({ ...address, path: '/_ping', signal }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.on('error', () => resolve(false));
  });
}
