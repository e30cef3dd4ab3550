import { LOCK_PLUS } from './lock-plus.js';
import { RENEWING } from './renewing.js';
import { SEVERAL_SERVERS } from './several-servers.js';
import { OURS, type Stage } from './stage.js';
import { WITH_COMMANDS } from './with-commands.js';
import { WITHOUT_REDIS } from './without-redis.js';

/** The sixteen steps of the articles with their variants, and ours; then theirs and ours on several servers. */
export const STAGES: readonly Stage[] = [
  ...WITHOUT_REDIS,
  ...WITH_COMMANDS,
  ...RENEWING,
  ...LOCK_PLUS,
  {
    id: OURS,
    name: 'nestjs-locked',
    lesson:
      'The lock is taken before BEGIN, kept until COMMIT was answered, and the database checks it.',
    breaks: 'A failover can let two hold it for a moment; the fence lets only one of them write.',
    traits: ['lock', 'redis', 'expiry', 'renewal', 'local hand-over', 'in order'],
    // Processes that run another stage do not load a Nest application.
    open: async (tools) => (await import('./stock.service.js')).openShop(tools),
  },
  ...SEVERAL_SERVERS,
];
