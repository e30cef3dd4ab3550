import type { Stage } from './stage.js';

export const nestjsLocked: Stage = {
  number: 17,
  name: 'nestjs-locked',
  lesson:
    'The lock is taken before BEGIN, kept until COMMIT was answered, and the database checks it.',
  breaks: 'A failover can let two hold it for a moment; the fence lets only one of them write.',
  traits: ['lock', 'redis', 'expiry', 'renewal', 'local hand-over'],
  // A Nest application is not loaded by the processes that run another stage.
  open: async (tools) => (await import('./17-stock.service.js')).openShop(tools),
};
