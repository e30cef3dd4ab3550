import { describe, expect, it } from '@jest/globals';
import { eventually } from '../../../test/support/eventually.js';
import { SALE_FEATURES } from '../src/transactions/sale-plan.js';
import { runTorture, TortureProgram } from './torture-program.js';

const TRANSACTIONS = ['--transactions', '--seed', '7'];

async function seesViolations(violations: readonly RegExp[], ...args: string[]): Promise<void> {
  const output = await runTorture(1, ...TRANSACTIONS, ...args);
  for (const { source } of violations) {
    expect(output).toMatch(new RegExp(`VIOLATION of \\w+: .*${source}`));
  }
}

describe('torture of transactions', () => {
  it('a short run is clean: written is what was acknowledged, and nothing else [D94]', async () => {
    const output = await runTorture(0, '--transactions', '--seed', '1', '--seconds', '4');
    expect(output).toMatch(/\nclean\n$/);
  });

  const lostPieces = /\d: \d+ pieces are gone, \d+ rows were written/;
  it.each([
    ['unknown', '10', [lostPieces]],
    ['inside', '10', [lostPieces]],
    [
      'branches,answer',
      '10',
      [/has rows of (?:the runs |run \d, its last)/, /was acknowledged, and written by half: \{\}/],
    ],
    // In longer runs, processes are killed, and what they keep is a reason to have waited in vain.
    ['order', '12', [/\d+ of \d+ calls have waited for their locks in vain/]],
  ])('sees what is broken on purpose: %s [D94]', async (rules, seconds, violations) => {
    // Long enough to see it on a machine that does other things as well.
    await seesViolations(violations, '--seconds', seconds, '--break', rules);
  });

  it.each([
    [
      'lost-locks',
      'unknown',
      '10',
      /\S+ was written although it had lost a lock before its COMMIT/,
    ],
    // One call in sixty or so meets it, so there are more callers than usual.
    [
      'audits',
      'audits',
      '20',
      /the audit row of \S+, which asks for no lock, was refused: LOCK_IN_/,
    ],
    ['cut-commits', 'unknown', '10', /the COMMIT of \S+ was not given up for \d+ ms/],
  ])('%s show what is broken on purpose: %s', async (feature, rule, seconds, violation) => {
    const others = SALE_FEATURES.filter((name) => name !== feature).join();
    const callers = feature === 'audits' ? ['--callers', '24'] : [];
    const args = ['--seconds', seconds, '--break', rule, '--without', others, ...callers];
    await seesViolations([violation], ...args);
  });

  const onLinux = process.platform === 'linux' ? it : it.skip;
  onLinux('leaves neither process nor folder behind after Ctrl-C', async () => {
    const torture = new TortureProgram(...TRANSACTIONS, '--seconds', '60');
    await eventually(() => expect(torture.workers()).toHaveLength(3), 60_000); // after a database was made
    torture.interrupt();
    await torture.ended;
    await eventually(() => expect([torture.processes(), torture.folders()]).toEqual([[], []]));
  });
});
