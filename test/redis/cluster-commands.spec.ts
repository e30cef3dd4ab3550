/** How a command finds the node that has its key, with nodes played by the test. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { ClusterCommands } from '../../libs/nestjs-locked/src/redis/cluster/cluster-commands.js';
import type { ClusterNodes } from '../../libs/nestjs-locked/src/redis/cluster/cluster-nodes.js';
import type {
  CommandOutcome,
  RedisCommand,
} from '../../libs/nestjs-locked/src/redis/connection/traffic/redis-command.js';
import { readOutcome } from '../../libs/nestjs-locked/src/redis/read-outcome.js';
import { FakeClock, settled } from '../support/fake-clock.js';

const LIMIT_MS = 1_000;

interface Sent {
  /** The node and the command: `a: release x`. */
  readonly what: string;
  readonly command: RedisCommand;
  /** When its time is over; undefined if it has its full time. */
  readonly dueAt: number | undefined;
  readonly end: (outcome: CommandOutcome) => void;
}

const answered: CommandOutcome = { kind: 'answered', reply: 'OK', mayHaveRunBefore: false };

function failed(message: string, neverRan = true): CommandOutcome {
  const reply = Object.assign(new Error(message), { name: 'ReplyError' });
  const cause = new LockStoreError(message, undefined, { cause: reply });
  return { kind: 'failed', cause, neverRan };
}

const moved = failed('MOVED 7 b');
const again = failed('TRYAGAIN Multiple keys request during rehashing of slot');
const down = failed('CLUSTERDOWN The cluster is down');

/** All keys are in slot 7, which node `a` has. */
function start() {
  const clock = new FakeClock();
  const sent: Sent[] = [];
  let looks = 0;
  const nodeAt = (name: string) => {
    const run = (
      command: RedisCommand,
      read: (outcome: CommandOutcome) => unknown,
      dueAt?: number,
    ) =>
      new Promise((resolve) => {
        const what = `${name}: ${command.action}`;
        sent.push({ what, command, dueAt, end: (outcome) => resolve(read(outcome)) });
      });
    return { name, isGone: false, connections: { run, commands: { run } } };
  };
  const known = { a: nodeAt('a'), b: nodeAt('b') };
  let owner: keyof typeof known = 'a';
  const nodes = {
    isClosed: false,
    slotOf: () => 7,
    ofSlot: () => known[owner],
    at: (name: keyof typeof known) => known[name],
    moved: (_slot: number, name: keyof typeof known) => void (owner = name),
    lookSoon: () => void looks++,
    changed: async (_limitMs: number) => {},
  };
  const commands = new ClusterCommands(nodes as unknown as ClusterNodes, clock, LIMIT_MS);
  const ended: [action: string, outcome: CommandOutcome][] = [];
  return {
    clock,
    nodes,
    commands,
    known,
    looks: () => looks,
    move: (to: keyof typeof known) => void (owner = to),
    ended,
    outcomeOf: (action: string) => ended.find(([name]) => name === action)?.[1],
    run: (action: string, more: Partial<RedisCommand> = {}) => {
      const command = { action, keys: ['x'], redisKey: 'lock:{x}', send: async () => {}, ...more };
      void commands
        .run(command, (outcome) => outcome)
        .then((outcome) => ended.push([action, outcome]));
    },
    /** Commands that were sent and not yet taken by the test. */
    waiting: async () => {
      await settled();
      return sent.map(({ what }) => what);
    },
    next: async (what: string) => {
      await settled();
      const first = sent.shift();
      expect(first?.what).toBe(what);
      return first as Sent;
    },
  };
}

/** What only a renewal has: a short form that need not wait. */
const renewal = { whileMoving: { afterMs: 0, send: async () => 'short' } };

describe('a command that was sent to the wrong node', () => {
  it('is redirected at once, and the last answer counts', async () => {
    const { run, next, outcomeOf } = start();
    run('acquire');
    (await next('a: acquire')).end(moved);
    (await next('b: acquire')).end(answered);
    await settled();
    expect(outcomeOf('acquire')).toEqual(answered);
  });

  it('is redirected after a pause when nodes send it back and forth', async () => {
    const { run, next, waiting, clock } = start();
    run('acquire');
    for (let i = 0; i < 4; i++) {
      (await next(i % 2 === 0 ? 'a: acquire' : 'b: acquire')).end(
        failed(`MOVED 7 ${i % 2 === 0 ? 'b' : 'a'}`),
      );
    }
    expect(await waiting()).toEqual([]);
    await clock.advance(100);
    expect(await waiting()).toEqual(['a: acquire']);
  });

  it('is followed by later commands for its key, and by no others', async () => {
    const { run, next, waiting } = start();
    run('acquire');
    (await next('a: acquire')).end(again);
    await settled();
    run('release');
    run('acquire y', { keys: ['y'] });
    expect(await waiting()).toEqual(['a: acquire y']);
  });

  it('is carried out before those that came later, in their order', async () => {
    const { run, next, waiting, clock } = start();
    run('first');
    (await next('a: first')).end(again);
    await settled();
    run('second');
    run('third');
    await clock.advance(100);
    const first = await next('a: first');
    expect(await waiting()).toEqual([]);
    first.end(answered);
    const second = await next('a: second');
    run('fourth');
    expect(await waiting()).toEqual([]);
    second.end(answered);
    (await next('a: third')).end(answered);
    (await next('a: fourth')).end(answered);
    await settled();
    run('fifth');
    expect(await waiting()).toEqual(['a: fifth']);
  });

  it('does not delay renewals', async () => {
    const { run, next, waiting } = start();
    run('acquire');
    (await next('a: acquire')).end(again);
    await settled();
    run('renew', renewal);
    (await next('a: renew')).end(again);
    expect(await waiting()).toEqual(['a: renew']);
  });

  it('has the time that is left, and its error says why it took so long', async () => {
    const { run, next, clock, outcomeOf } = start();
    run('acquire');
    const from = clock.now();
    const first = await next('a: acquire');
    await clock.advance(LIMIT_MS / 2);
    first.end(moved);
    const second = await next('b: acquire');
    expect(second.dueAt).toBe(from + LIMIT_MS);
    await clock.advance(LIMIT_MS / 2);
    second.end(failed('there was no connection'));
    await settled();
    expect(outcomeOf('acquire')).toMatchObject({ cause: { message: 'MOVED 7 b' } });
  });

  it('may have run if one of its attempts may have', async () => {
    const { run, next, outcomeOf, known, move } = start();
    run('acquire');
    const first = await next('a: acquire');
    known.a.isGone = true;
    move('b');
    first.end(failed('the connection broke', false));
    (await next('b: acquire')).end(answered);
    await settled();
    expect(outcomeOf('acquire')).toEqual({ ...answered, mayHaveRunBefore: true });
  });

  it('may have run, however it ends later', async () => {
    const { run, next, outcomeOf, known, move } = start();
    run('acquire');
    (await next('a: acquire')).end(moved);
    const second = await next('b: acquire');
    known.b.isGone = true;
    move('a');
    second.end(failed('the connection broke', false));
    (await next('a: acquire')).end(failed('NOPERM'));
    await settled();
    expect(outcomeOf('acquire')).toMatchObject({ kind: 'failed', neverRan: false });
  });
});

describe('a script that stopped half-way because the slot is moving', () => {
  const stopped = failed(
    'ERR Script attempted to access a non local key in a cluster node script: 1, on @user_script:2.',
    false,
  );

  it('is sent again, and may have run before', async () => {
    const { run, next, clock, outcomeOf } = start();
    run('release');
    (await next('a: release')).end(stopped);
    await settled();
    await clock.advance(100);
    (await next('a: release')).end(answered);
    await settled();
    expect(outcomeOf('release')).toEqual({ ...answered, mayHaveRunBefore: true });
  });

  it('is not sent again if it could do harm', async () => {
    const { run, next, clock, waiting, outcomeOf } = start();
    run('revoke', { isRepeatable: false });
    (await next('a: revoke')).end(stopped);
    await settled();
    await clock.advance(100);
    expect(await waiting()).toEqual([]);
    const outcome = outcomeOf('revoke') as CommandOutcome;
    expect(outcome).toMatchObject({ kind: 'failed', neverRan: false });
    expect(readOutcome(outcome, () => ({}))).not.toHaveProperty('isRefused'); // it is over soon
  });
});

describe('a command whose node is lost', () => {
  it('goes to the one that has the slot now', async () => {
    const { run, next, known, move } = start();
    run('acquire');
    const first = await next('a: acquire');
    known.a.isGone = true;
    move('b');
    first.end(failed('the connection is closed'));
    await next('b: acquire');
  });

  it.each([
    ['could do harm if it ran twice', true, false],
    ['has failed on a node that still answers', false, true],
  ])('is not repeated if it %s', async (_, isGone, isRepeatable) => {
    const { run, next, known, move, outcomeOf } = start();
    run('revoke', { isRepeatable });
    const first = await next('a: revoke');
    known.a.isGone = isGone;
    move('b');
    first.end(failed('the connection broke', false));
    await settled();
    expect(outcomeOf('revoke')).toMatchObject({ kind: 'failed', neverRan: false });
  });

  it('ends when the locks are closed', async () => {
    const { run, next, nodes, clock, waiting, outcomeOf } = start();
    run('acquire');
    (await next('a: acquire')).end(again);
    await settled();
    nodes.isClosed = true;
    await clock.advance(100);
    expect(await waiting()).toEqual([]);
    expect(outcomeOf('acquire')).toMatchObject({ kind: 'failed', neverRan: true });
  });
});

describe('a command that cannot be carried out yet', () => {
  it('is tried again after a pause, until its time is over', async () => {
    const { run, next, waiting, clock, outcomeOf, looks } = start();
    run('acquire');
    let times = 0;
    while (outcomeOf('acquire') === undefined) {
      if ((await waiting()).length === 0) {
        await clock.advance(10);
        continue;
      }
      times++;
      (await next('a: acquire')).end(down);
    }
    // A pause lasts 50 to 100 ms.
    expect(times).toBeGreaterThanOrEqual(LIMIT_MS / 110);
    expect(times).toBeLessThanOrEqual(LIMIT_MS / 50 + 1);
    expect(looks()).toBeGreaterThanOrEqual(times - 1); // the last answer may have come when the time was over
    expect(outcomeOf('acquire')).toMatchObject({ neverRan: true });
  });

  it('is tried once more after this process stood still during a pause', async () => {
    const { run, next, clock, outcomeOf } = start();
    run('acquire');
    (await next('a: acquire')).end(down);
    await settled();
    clock.block(3 * LIMIT_MS);
    await clock.advance(0);
    (await next('a: acquire')).end(answered);
    await settled();
    expect(outcomeOf('acquire')).toEqual(answered);
  });

  it('is sent when a node is known, although this process stood still meanwhile', async () => {
    const { run, next, clock, nodes, known, outcomeOf } = start();
    nodes.ofSlot = () => undefined as never;
    nodes.changed = (ms) => new Promise<void>((resolve) => void clock.after(ms, resolve));
    run('acquire');
    await settled();
    clock.block(3 * LIMIT_MS);
    nodes.ofSlot = () => known.a;
    await clock.advance(0);
    (await next('a: acquire')).end(answered);
    await settled();
    expect(outcomeOf('acquire')).toEqual(answered);
  });

  it('is sent in its short form while its keys are moving, also with pauses', async () => {
    const { run, next, waiting, clock } = start();
    run('renew', renewal);
    (await next('a: renew')).end(again);
    const short = await next('a: renew');
    expect(await short.command.send({} as never, false)).toBe('short');
    short.end(again);
    expect(await waiting()).toEqual([]);
    await clock.advance(100);
    expect(await waiting()).toEqual(['a: renew']);
  });
});

describe('idle', () => {
  it('waits for the commands that answers cause', async () => {
    const { commands, run, next } = start();
    const command: RedisCommand = { action: 'acquire', keys: ['x'], send: async () => {} };
    void commands.run(command, () => {}).then(() => run('release'));
    let isIdle = false;
    void commands.idle().then(() => (isIdle = true));
    (await next('a: acquire')).end(answered);
    const release = await next('a: release');
    expect(isIdle).toBe(false);
    release.end(answered);
    await settled();
    expect(isIdle).toBe(true);
  });
});
