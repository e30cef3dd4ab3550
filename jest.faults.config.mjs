/**
 * How the library behaves when Redis, a connection or a process is taken away: servers that are killed, stand still,
 * fail over and come back, slots of a cluster that move, processes that are killed and paused. Each test starts servers
 * of its own, and waits for them, so these take as long as all others of the library together.
 */
import library from './jest.library.config.mjs';

const [esm] = library.projects;

export default {
  ...library,
  projects: [
    {
      ...esm,
      displayName: 'faults',
      testMatch: ['<rootDir>/test/{cluster,faults,processes}/*.spec.ts'],
    },
  ],
};
