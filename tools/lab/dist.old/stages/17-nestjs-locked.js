export const nestjsLocked = {
    number: 17,
    name: 'nestjs-locked',
    lesson: 'The lock is taken before BEGIN, kept until COMMIT was answered, and the database checks it.',
    breaks: 'A failover can let two hold it for a moment; the fence lets only one of them write.',
    traits: ['lock', 'redis', 'expiry', 'renewal', 'local hand-over'],
    // Processes that run another stage do not load a Nest application.
    open: async (tools) => (await import('./17-stock.service.js')).openShop(tools),
};
//# sourceMappingURL=17-nestjs-locked.js.map