export const VERDICTS = {
    held: {
        sign: '✓',
        short: 'held',
        word: 'held',
        meaning: 'The stock is right, and nobody is blocked for longer than a dead holder’s lock lasts.',
        css: 'held',
    },
    'stock wrong': {
        sign: '✗',
        short: 'stock wrong',
        word: 'wrong',
        meaning: 'More was sold than left the stock: two were inside, and one overwrote the other.',
        css: 'wrong',
    },
    'two holders': {
        sign: '2',
        short: 'two holders',
        word: 'two',
        meaning: 'Two believed that they held the lock; the stock still came out right.',
        css: 'two',
    },
    'locked for ever': {
        sign: '∞',
        short: 'for ever',
        word: 'stuck',
        meaning: 'Nobody gets in any more, until a human removes the key or the other process rests.',
        css: 'ever',
    },
    'call failed': {
        sign: '!',
        short: 'call failed',
        word: 'failed',
        meaning: 'A purchase ended with an error that nobody meant: a crash, or a rollback.',
        css: 'failed',
    },
    'nobody was told': {
        sign: '…',
        short: 'not told',
        word: 'untold',
        meaning: 'The lock was lost, and its holder never heard of it.',
        css: 'two',
    },
};
//# sourceMappingURL=verdict-words.js.map