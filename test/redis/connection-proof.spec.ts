/** When the rights of the Redis user are checked again, on a fake clock. `rights-lost` shows what Redis refuses. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { ConnectionProof } from '../../libs/nestjs-locked/src/redis/connection/proof/connection-proof.js';
import type {
  InboxProof,
  InboxProofOutcome,
} from '../../libs/nestjs-locked/src/redis/connection/proof/inbox-proof.js';
import type { CommandConnection } from '../../libs/nestjs-locked/src/redis/connection/traffic/command-connection.js';
import type { RedisInbox } from '../../libs/nestjs-locked/src/redis/connection/traffic/redis-inbox.js';
import { FakeClock, settled } from '../support/fake-clock.js';

const refusal = new Error('NOPERM No permissions to access a key');
const refused: InboxProofOutcome = {
  kind: 'failed',
  cause: new LockStoreError('Cannot prove the scripts', undefined, { cause: refusal }),
  neverRan: true,
};

/** Both connections exist and stay the same, unless the test says otherwise. */
function start() {
  const clock = new FakeClock();
  const told: string[] = [];
  const proofs: number[] = [];
  let outcome: InboxProofOutcome = { kind: 'arrived' };
  let whileProving = (): void => {};
  let answersOfInbox = async (): Promise<boolean> => true;
  const commands = {
    isReady: true,
    connections: 1,
    proved: () => {},
    reconnect: () => void told.push('commands replaced'),
  };
  const inbox = {
    ready: true,
    connections: 1,
    proved: () => {},
    reconnect: () => void told.push('inbox replaced'),
    answers: () => answersOfInbox(),
  };
  const inboxProof = {
    run: async () => {
      proofs.push(clock.now());
      whileProving();
      return outcome;
    },
  };
  const proof = new ConnectionProof(
    {
      clock,
      commands: commands as typeof commands & CommandConnection,
      inbox: () => inbox as unknown as RedisInbox,
      proof: inboxProof as unknown as InboxProof,
      server: 'redis://here',
      rights: () => '+ping',
    },
    {
      proved: () => {},
      failed: () => {},
      rightsLost: () => void told.push('lost'),
      rightsBack: () => void told.push('back'),
    },
  );
  return {
    ...{ clock, proof, proofs, told, inbox },
    commands: commands as typeof commands & CommandConnection,
    answer: (next: InboxProofOutcome) => void (outcome = next),
    duringProofs: (act: () => void) => void (whileProving = act),
    askedForLife: (act: () => Promise<boolean>) => void (answersOfInbox = act),
  };
}

describe('the proof of what the Redis user may do', () => {
  it('runs as soon as a command is refused, and once a second at most', async () => {
    const { clock, proof, proofs } = start();
    const startedAt = clock.now();
    for (let i = 0; i < 30; i++) {
      proof.commandFailed(refusal);
      await clock.advance(100);
    }
    await clock.advance(10_000);
    expect(proofs.map((at) => at - startedAt)).toEqual([0, 1_000, 2_000, 3_000]);
  });

  it('runs once more for a refusal right after the last run', async () => {
    const { clock, proof, proofs, told, answer } = start();
    proof.commandFailed(refusal);
    await settled();
    expect(told).toEqual([]);
    answer(refused);
    await clock.advance(300);
    proof.commandFailed(refusal);
    await clock.advance(699);
    expect(proofs).toHaveLength(1);
    await clock.advance(1);
    expect(told).toEqual(['lost']);
  });

  it('does not run for a refusal once the locks are closed', async () => {
    const { clock, proof, proofs } = start();
    proof.commandFailed(refusal);
    await settled();
    proof.commandFailed(refusal);
    proof.close();
    await clock.advance(5_000);
    expect(proofs).toHaveLength(1);
  });

  it('does not run for a failure that is not a refusal', async () => {
    const { clock, proof, proofs } = start();
    proof.commandFailed(new Error('Connection is closed.'));
    await clock.advance(5_000);
    expect(proofs).toEqual([]);
  });

  it('is repeated each second while something is refused, and the end of that is reported once', async () => {
    const { clock, proof, proofs, told, answer } = start();
    answer(refused);
    proof.commandFailed(refusal);
    await clock.advance(5_500);
    expect(proofs).toHaveLength(6);
    expect(new Set(told)).toEqual(new Set(['lost']));
    answer({ kind: 'arrived' });
    await clock.advance(5_000);
    expect(proofs).toHaveLength(7);
    expect(told.at(-1)).toBe('back');
    expect(told.filter((event) => event === 'back')).toHaveLength(1);
  });

  it('runs again while something is refused, although the connection broke during the last run', async () => {
    const { clock, proof, told, answer, commands, duringProofs } = start();
    answer(refused);
    proof.commandFailed(refusal);
    await settled();
    answer({ kind: 'arrived' });
    duringProofs(() => {
      commands.connections++;
      duringProofs(() => {});
    });
    await clock.advance(1_000);
    expect(told).not.toContain('back');
    await clock.advance(1_000);
    expect(told).toContain('back');
  });

  it('counts while the inbox fails to connect', async () => {
    const { clock, proof, told, answer, inbox, duringProofs } = start();
    inbox.ready = false;
    duringProofs(() => void inbox.connections++);
    answer(refused);
    proof.commandFailed(refusal);
    await settled();
    expect(told).toEqual(['lost']);
    answer({ kind: 'missing' }); // the script was executed
    await clock.advance(1_000);
    expect(told).toEqual(['lost', 'back']);
  });

  it('replaces the older connection if no message has arrived', async () => {
    const { proof, told, answer, commands } = start();
    answer({ kind: 'missing' });
    proof.prove(commands);
    await settled();
    expect(told).toEqual(['commands replaced']);
  });

  it('replaces nothing if no message has arrived because the inbox was replaced', async () => {
    const { proof, told, answer, commands, inbox, duringProofs } = start();
    duringProofs(() => void inbox.connections++);
    answer({ kind: 'missing' });
    proof.prove(commands);
    await settled();
    expect(told).toEqual([]);
  });

  it('replaces nothing if no message has arrived because the inbox was cut, which is noticed only now', async () => {
    const { proof, told, answer, commands, inbox, askedForLife } = start();
    answer({ kind: 'missing' });
    for (const isAnswered of [true, false]) {
      askedForLife(async () => {
        inbox.connections++;
        return isAnswered;
      });
      proof.prove(commands);
      await settled();
    }
    expect(told).toEqual([]);
  });

  it('replaces the inbox if it does not answer', async () => {
    const { proof, told, answer, commands, askedForLife } = start();
    answer({ kind: 'missing' });
    askedForLife(async () => false);
    proof.prove(commands);
    await settled();
    expect(told).toEqual(['inbox replaced']);
  });

  it('runs for a refusal again after it was closed while something was refused', async () => {
    const { clock, proof, proofs, told, answer } = start();
    answer(refused);
    proof.commandFailed(refusal);
    await settled();
    proof.close();
    await clock.advance(5_000);
    expect(proofs).toHaveLength(1);
    told.length = 0;
    proof.commandFailed(refusal);
    await settled();
    expect(proofs).toHaveLength(2);
    expect(told).toEqual(['lost']);
  });
});
