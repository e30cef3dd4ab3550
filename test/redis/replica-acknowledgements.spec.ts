import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { AwakeLimit } from '../../libs/nestjs-locked/src/core/time/after-silence.js';
import { OpenCommand } from '../../libs/nestjs-locked/src/redis/connection/traffic/open-command.js';
import type {
  CommandAnswer,
  CommandFailure,
  CommandOutcome,
} from '../../libs/nestjs-locked/src/redis/connection/traffic/redis-command.js';
import { ReplicaAcknowledgements } from '../../libs/nestjs-locked/src/redis/connection/traffic/replica-acknowledgements.js';

const answered = (reply: unknown): CommandAnswer => {
  return { kind: 'answered', reply, mayHaveRunBefore: false };
};

/** Two of three replicas must have it. The test says when a command is sent, and when it is answered. */
function start() {
  let sendings = 0;
  const waits: OpenCommand[] = [];
  const ended: [action: string, outcome: CommandOutcome][] = [];
  const send = (
    command: OpenCommand['command'],
    end: (outcome: CommandOutcome) => void = (outcome) => ended.push([command.action, outcome]),
  ): OpenCommand => {
    const open = new OpenCommand(command, new AwakeLimit(Infinity, 0), end);
    open.sending = ++sendings;
    return open;
  };
  const required = { replicas: 2, aof: false };
  const acknowledgements = new ReplicaAcknowledgements(required, 100, (command, end) => {
    const wait = send(command, end);
    waits.push(wait);
    return wait;
  });
  return {
    waits,
    ended,
    /** Commands that have succeeded. */
    known: () => ended.flatMap(([action, { kind }]) => (kind === 'answered' ? action : [])),
    acknowledgements,
    sent: (action: string) =>
      send({ action, keys: [], send: async () => {}, mustBeReplicated: () => true }),
    answer: (open: OpenCommand) =>
      acknowledgements.holdBack(open, answered(`reply to ${open.command.action}`)),
  };
}

describe('ReplicaAcknowledgements', () => {
  it('holds an answer back until a WAIT that was sent later is answered', () => {
    const { sent, answer, waits, ended, known } = start();
    const [first, second] = [sent('first'), sent('second')];
    expect([answer(first), answer(second)]).toEqual([true, true]);
    expect(waits).toHaveLength(1);
    expect(ended).toEqual([]);
    waits[0]?.end(answered(2));
    expect(known()).toEqual(['first', 'second']);
    expect(waits).toHaveLength(1);
  });

  it.each([
    ['enough replicas', 2, ['first']],
    ['too few', 1, []],
  ])(
    'does not use the answer to a WAIT for a command that was sent after it: %s',
    (_, count, at) => {
      const { sent, answer, waits, known, ended } = start();
      answer(sent('first'));
      answer(sent('later'));
      waits[0]?.end(answered(count));
      expect(known()).toEqual(at);
      expect(ended.map(([action]) => action)).toEqual(['first']);
      expect(waits).toHaveLength(2);
      waits[1]?.end(answered(3));
      expect(known()).toEqual([...at, 'later']);
      answer(sent('next'));
      expect(waits).toHaveLength(3);
    },
  );

  it.each<[string, (started: ReturnType<typeof start>) => void]>([
    ['the connection breaks', ({ acknowledgements }) => acknowledgements.lost()],
    [
      'the WAIT fails',
      ({ waits }) => {
        const cause = new LockStoreError('Cannot wait');
        waits[0]?.end({ kind: 'failed', cause, neverRan: true });
      },
    ],
    ['too few replicas have it', ({ waits }) => waits[0]?.end(answered(1))],
  ])('reports that Redis did it, and with which answer, if %s', (_, happens) => {
    const started = start();
    started.answer(started.sent('first'));
    happens(started);
    const [[, outcome]] = started.ended as [[string, CommandFailure]];
    expect(outcome).toMatchObject({
      kind: 'failed',
      neverRan: false,
      unacknowledged: answered('reply to first'),
    });
  });
});
