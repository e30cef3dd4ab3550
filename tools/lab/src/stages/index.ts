import { RENEWING } from './renewing.js';
import type { Stage } from './stage.js';
import { WITH_COMMANDS } from './with-commands.js';
import { WITHOUT_REDIS } from './without-redis.js';

/** The sixteen steps of the articles, and ours. */
export const STAGES: readonly Stage[] = [
  ...WITHOUT_REDIS,
  ...WITH_COMMANDS,
  ...RENEWING,
  {
    number: 17,
    name: 'nestjs-locked',
    lesson:
      'The lock is taken before BEGIN, kept until COMMIT was answered, and the database checks it.',
    breaks: 'A failover can let two hold it for a moment; the fence lets only one of them write.',
    traits: ['lock', 'redis', 'expiry', 'renewal', 'local hand-over'],
    // Processes that run another stage do not load a Nest application.
    open: async (tools) => (await import('./stock.service.js')).openShop(tools),
  },
];
