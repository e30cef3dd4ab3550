import { setTimeout as sleep } from 'node:timers/promises';
import type { Goal } from './run/goal.js';
import type { Scene } from './run/scene.js';
import { inSeconds } from './run/summary.js';
import { LEASE_MS, seconds } from './scale.js';
import { SEVERAL_ACCIDENTS } from './several-accidents.js';
import { OURS, type Stage, type Trait } from './stages/stage.js';

/** One thing that goes wrong, provoked at its exact point. */
export interface Accident {
  readonly id: string;
  readonly name: string;
  /** The heading of its column, in two short words. */
  readonly short: string;
  /** What is done to the stage, and at which point. */
  readonly how: string;
  /** Of how many servers the locks are to which it happens. @default 'one' */
  readonly servers?: 'one' | 'several' | 'any';
  /** The traits without which it cannot happen to a stage, and what is said of a stage that lacks one. */
  readonly needs?: Partial<Record<Trait, string>>;
  /** Why it cannot happen to this stage for another reason. */
  unless?(stage: Stage): string | undefined;
  readonly goal: Goal;
  play(scene: Scene): Promise<void>;
}

/** Why the accident cannot happen to this stage; undefined if it can. */
export function whyNot(accident: Accident, stage: Stage): string | undefined {
  const traits: readonly string[] = stage.traits;
  const { servers = 'one' } = accident;
  const isOfSeveral = traits.includes('several servers');
  if (servers === 'one' && isOfSeveral) return 'is played with one server';
  if (servers === 'several' && !isOfSeveral) return 'has one server';
  const missing = Object.entries(accident.needs ?? {}).find(([trait]) => !traits.includes(trait));
  return missing?.[1] ?? accident.unless?.(stage);
}

const LOCK = { lock: 'there is no lock' };
const ON_REDIS = { ...LOCK, redis: 'does not use Redis' };
const EXPIRES = { ...ON_REDIS, expiry: 'never expires' };

/** For accidents of two processes: a lock that each process has for itself, and one that nobody waits for. */
function blocksNobody({ id }: Stage): string | undefined {
  if (id === '2' || id === '2b') return 'a holder in another process does not block it';
  return id === '4' ? 'nobody waits' : undefined;
}

/** The lock of a dead holder lasts for a lease, and somebody looks for it in time. */
const AFTER_A_DEATH: Goal = { sold: 10, waitMs: LEASE_MS * 2 };

/** No accident at all, only the common work. */
export const SALE: Accident = {
  id: 'sale',
  name: 'the sale',
  short: 'sale',
  how: '100 pieces, 15 workers in 3 processes, each buys 10 pieces up to 3 times',
  servers: 'any',
  goal: { sold: 100 },
  async play(scene) {
    const firsts = await scene.callers(['1.1', '2.1', '3.1'], { recordCommands: false });
    const workers = firsts.flatMap((first) => [
      first,
      ...[2, 3, 4, 5].map((n) => first.alongside(`${first.lane[0]}.${n}`)),
    ]);
    for (const worker of workers) worker.buy({ times: 3, workMs: [5, 15] });
    await scene.allEndOrAreStuck(workers, LEASE_MS * 2);
  },
};

/** The sale, then the accidents in the order of the stages that they break first, then those of several servers. */
export const ACCIDENTS: readonly Accident[] = [
  SALE,
  {
    id: 'look',
    name: 'two look before one takes',
    short: 'two look',
    how: 'A is stopped when its first command was answered; B asks for the lock; then A goes on',
    needs: ON_REDIS,
    goal: { sold: 20 },
    async play(scene) {
      const [a, b] = await scene.callers(['A', 'B']);
      await a.buysUntil('first reply', 'inside');
      await b.asks('inside');
      await b.isInsideUnlessItWaits();
      scene.mark('A goes on');
      a.go('first reply');
      await scene.until(() => a.at.has('inside'), LEASE_MS * 0.2);
      b.goOn();
      if (b.did('hold')) await b.ends();
      a.goOn();
    },
  },
  {
    id: 'killed',
    name: 'holder killed',
    short: 'holder killed',
    how: 'A is killed (SIGKILL) while it holds the lock; B waits for it',
    needs: LOCK,
    unless: blocksNobody,
    servers: 'any',
    goal: AFTER_A_DEATH,
    async play(scene) {
      const [a, b] = await scene.callers(['A', 'B']);
      await a.buysUntil('inside');
      await b.asks();
      await a.kill('SIGKILL while it holds the lock');
      await scene.entersOrIsStuck(b);
    },
  },
  {
    id: 'between',
    name: 'killed between SETNX and EXPIRE',
    short: 'killed midway',
    how: 'A is killed when its first command of taking the lock was answered, and before the next',
    needs: ON_REDIS,
    // Ours is one script. With it, A dies when the script has run but its reply has not arrived yet.
    unless: ({ traits, id }) =>
      traits.includes('several commands') || id === OURS
        ? undefined
        : 'takes the lock in one command',
    goal: AFTER_A_DEATH,
    async play(scene) {
      const [a, b] = await scene.callers(['A', 'B']);
      await a.buysUntil('first reply');
      await a.kill('SIGKILL after the first command');
      b.buy();
      await scene.entersOrIsStuck(b);
    },
  },
  {
    id: 'waiter',
    name: 'a waiter takes over and dies',
    short: 'waiter dies',
    how: 'B has waited, gets the lock when A releases it, and is killed while it holds it; C waits',
    needs: LOCK,
    unless: blocksNobody,
    goal: { ...AFTER_A_DEATH, sold: 20 },
    async play(scene) {
      const [a, b, c] = await scene.callers(['A', 'B', 'C']);
      await a.buysUntil('inside');
      await b.asks('inside');
      await b.isInsideUnlessItWaits();
      a.goOn();
      await a.ends();
      if (!(await b.entersUnlessItFails(LEASE_MS * 2))) return;
      await c.asks();
      await b.kill('SIGKILL while it holds what it waited for');
      await scene.entersOrIsStuck(c);
    },
  },
  {
    id: 'clocks',
    name: 'clocks 2 s apart',
    short: 'clocks differ',
    how: 'the clock of B is 2 s ahead; A works for half of the time that its lock lasts',
    needs: ON_REDIS,
    goal: { sold: 20 },
    async play(scene) {
      const [a, b] = await scene.callers(['A', 'B'], { each: [{}, { clockOffsetMs: 2_000 }] });
      await a.buysUntil('inside');
      scene.mark('A has the lock; for B it is 2 s later');
      b.buy();
      if (await b.holds(LEASE_MS * 0.5)) await b.ends();
      a.goOn();
    },
  },
  {
    id: 'p1-p2-p3',
    name: 'P1 dies, P2 and P3 both see it',
    short: 'P1, P2, P3',
    how: 'P1 is killed while it holds; P2 and P3 both see the expired lock before one of them takes it; P2 goes first, then P3',
    needs: EXPIRES,
    goal: { sold: 20 },
    async play(scene) {
      const [p1, p2, p3] = await scene.callers(['P1', 'P2', 'P3']);
      const { traits } = scene.stage;
      const looks = traits.includes('client clock');
      // If an EXPIRE follows, nobody sees an expired value: P1 dies before it.
      await p1.buysUntil(looks && traits.includes('several commands') ? 'first reply' : 'inside');
      for (const waiter of [p2, p3]) {
        await (looks ? waiter.asks('saw expired', 'inside') : waiter.asks('inside'));
      }
      await p1.kill('SIGKILL while it has the lock');

      if (looks) {
        // In the other stages nobody looks first: the command that finds the lock expired also takes it.
        await p2.reaches('saw expired');
        await p3.reaches('saw expired');
        scene.mark('P2 and P3 have both seen that the lock expired');
        p2.go('saw expired');
        await p2.reaches('inside');
        scene.mark('P3 goes on with what it saw');
        const before = Number(await scene.redis.get(scene.key));
        p3.go('saw expired');
        await p3.stillWaits();
        const later = Number(await scene.redis.get(scene.key)) - before;
        if (!p3.did('hold') && later > 0) {
          scene.saw(`the loser moved the end of the winner's lock by ${inSeconds(later)}`);
        }
      }
      const haveFailed = (): boolean => p2.hasEnded && p3.hasEnded;
      await scene.until(() => p2.did('hold') || p3.did('hold') || haveFailed(), LEASE_MS * 3);
      if (haveFailed()) return;
      const [first, second] = p2.did('hold') ? [p2, p3] : [p3, p2];
      await first.reaches('inside');
      await second.isInsideUnlessItWaits();
      second.goOn();
      if (second.did('hold')) await second.ends();
      first.goOn();
      await scene.entersOrIsStuck(second);
    },
  },
  {
    id: 'nil',
    name: 'reply of nil to a naive int()',
    short: 'nil reply',
    how: 'A releases the lock after B has failed to take it, and before the next command of B',
    needs: ON_REDIS,
    goal: { sold: 20 },
    async play(scene) {
      const [a, b] = await scene.callers(['A', 'B']);
      await a.buysUntil('inside');
      await b.buysUntil('first reply');
      a.goOn();
      await a.ends();
      scene.mark('A has released the lock; B goes on');
      b.goOn();
      await scene.entersOrIsStuck(b);
    },
  },
  {
    id: 'get-del',
    name: 'expiry between GET and DEL',
    short: 'late release',
    how: 'the lock of A expires right before A sends the command that removes it; B takes it, then A goes on, and C asks',
    needs: EXPIRES,
    goal: { sold: 30 },
    async play(scene) {
      const [a, b, c] = await scene.callers(['A', 'B', 'C']);
      await a.buysUntil('removal');
      await b.asks('inside');
      await scene.expireNow();
      scene.disturb('expired, A has not sent its command yet');
      await b.entersUnlessItFails(LEASE_MS * 2);
      scene.mark('A goes on and releases what it no longer has');
      a.go('removal');
      await a.ends();
      await c.asks('inside');
      await c.isInsideUnlessItWaits();
      b.goOn();
      if (c.did('hold')) await b.ends();
      c.goOn();
    },
  },
  {
    id: 'long-work',
    name: 'work outlives the expiry',
    short: 'long work',
    how: 'A reads the stock and works for half as long again as the lock lasts; B wants to buy in the meantime',
    servers: 'any',
    goal: { sold: 20 },
    async play(scene) {
      const [a, b] = await scene.callers(['A', 'B']);
      await a.buysUntil('inside');
      b.buy();
      // Waits until B has got in and is done, or until A's lease should have ended long ago.
      if (await b.holds(LEASE_MS * 1.5)) await b.ends();
      scene.mark('A finishes its work');
      a.goOn();
    },
  },
  {
    id: 'longer-work',
    name: 'work outlives three leases',
    short: 'longer work',
    how: 'A reads the stock and works for longer than three leases, renewing; B asks for the first time after three',
    needs: { renewal: 'has no renewal' },
    goal: { sold: 20 },
    async play(scene) {
      const [a, b] = await scene.callers(['A', 'B']);
      await a.buysUntil('inside');
      await sleep(LEASE_MS * 3);
      scene.mark('A has worked for three leases');
      await b.asks();
      if (!(await b.stillWaits())) await b.ends();
      scene.mark('A finishes its work');
      a.goOn();
    },
  },
  {
    id: 'renewal',
    name: 'renewal stops',
    short: 'renewal stops',
    how: 'the commands by which A renews are held back until its lock has expired and B is in; then they arrive, while A works on',
    needs: { renewal: 'has no renewal' },
    goal: { sold: 10, refused: 1 },
    async play(scene) {
      const [a, b] = await scene.callers(['A', 'B']);
      await a.buysUntil('inside', 'renewal');
      b.buy({ stopAt: ['inside'] });
      await a.reaches('renewal');
      scene.disturb('renewals of A do not get through any more');
      await b.holds(LEASE_MS * 3);
      if (b.did('hold')) {
        await sleep(LEASE_MS * 0.1);
        const before = await scene.redis.pttl(scene.key);
        a.go('renewal');
        await sleep(LEASE_MS * 0.02);
        const longer = (await scene.redis.pttl(scene.key)) - before;
        if (longer > 0) scene.saw(`A prolonged the lock of B by ${inSeconds(longer)}`);
      }
      scene.mark('A finishes its work');
      a.goOn();
      await a.ends();
      b.goOn();
    },
  },
  {
    id: 'passed-on',
    name: 'lost, and passed on locally',
    short: 'lost, passed on',
    how: 'A1 holds and A2 of the same process waits; renewals are held back until the lock has expired and B, elsewhere, is in; then A1 is done',
    needs: { ...ON_REDIS, 'local hand-over': 'does not pass the lock on locally' },
    goal: { sold: 20, refused: 1 },
    async play(scene) {
      const [a1, b] = await scene.callers(['A1', 'B']);
      const a2 = a1.alongside('A2');
      await a1.buysUntil('inside', 'renewal');
      a2.buy({ stopAt: ['inside', 'renewal'] });
      b.buy({ stopAt: ['inside'] });
      await a1.reaches('renewal');
      await b.holds(LEASE_MS * 3);
      scene.mark('B has the lock; A1 is done and lets the next one in');
      a1.go('inside');
      await a1.ends(LEASE_MS);
      await a2.holds(LEASE_MS * 0.3);
      if (b.did('hold')) await b.reaches('inside');
      b.goOn();
      await b.ends(LEASE_MS);
      for (const caller of [a1, a2]) caller.goOn();
    },
  },
  {
    id: 'busy',
    name: 'busy local holder',
    short: 'busy process',
    how: 'two callers of one process pass the lock to each other without a pause; B, in another process, waits for it',
    needs: {
      ...LOCK,
      redis: 'nobody waits in another process',
      'local hand-over': 'does not pass the lock on locally: who is next is luck',
    },
    goal: { sold: 10 },
    async play(scene) {
      const [a1, b] = await scene.callers(['A1', 'B']);
      const a2 = a1.alongside('A2');
      for (const caller of [a1, a2]) caller.buy({ times: 0, quantity: 0, workMs: [2, 2] });
      const turns = (): number => scene.events.filter(({ kind }) => kind === 'committed').length;
      await scene.until(() => turns() > 10, LEASE_MS * 4);
      await b.asks();
      const before = turns();
      await scene.until(() => b.did('hold') || turns() > before + 100, LEASE_MS * 10);
      const gone = turns() - before;
      if (b.did('hold')) scene.saw(`let in after ${gone} turns of the other process`);
      else scene.saw(`not let in while the other process had ${gone} turns`, 'locked for ever');
      for (const caller of [a1, a2]) caller.goOn();
      await b.ends();
    },
  },
  {
    id: 'slow-commit',
    name: 'COMMIT takes time',
    short: 'slow COMMIT',
    how: 'A has done its work, and its COMMIT is held back; B, in the same process, asks for the lock',
    goal: { sold: 20 },
    async play(scene) {
      const [a] = await scene.callers(['A']);
      const b = a.alongside('B');
      await a.buysUntil('commit');
      b.buy();
      // Not for long: ours takes a holder whose transaction is silent for a paused one. B's write may wait for A's.
      if (await b.holds(LEASE_MS * 0.12))
        await scene.until(() => b.did('write') || b.hasEnded, LEASE_MS);
      scene.mark('the COMMIT of A is sent');
      a.goOn();
    },
  },
  {
    id: 'pause',
    name: 'holder paused before COMMIT',
    short: 'holder paused',
    how: 'A is paused (SIGSTOP) when it is about to send COMMIT, until its lock has expired and B is in; then it wakes up',
    servers: 'any',
    goal: { sold: 10, refused: 1 },
    async play(scene) {
      const [a, b] = await scene.callers(['A', 'B']);
      await a.buysUntil('commit');
      a.pause('SIGSTOP before COMMIT');
      await b.asks();
      // Waits until B is done. It may also be that B's write waits in the database for A's transaction, or that B does
      // not get in.
      if (await b.holds(LEASE_MS * 1.7)) {
        await scene.until(() => b.did('write') || b.hasEnded, LEASE_MS);
        await b.ends(LEASE_MS * 0.2);
      }
      a.go('commit');
      a.resume('SIGCONT: sends COMMIT');
      await a.ends();
    },
  },
  {
    id: 'in-transaction',
    name: 'lock asked for in a transaction',
    short: 'inside BEGIN',
    how: '5 callers begin a transaction and ask for the lock inside it, with a pool of 5 and a transaction time-out of 5 s; A holds the lock for longer',
    needs: LOCK,
    unless: blocksNobody,
    goal: { sold: 60 },
    async play(scene) {
      const limitMs = seconds(5);
      const [a, b1] = await scene.callers(['A', 'B1'], {
        each: [{}, { transactionLimitMs: limitMs }],
      });
      const callers = [b1, ...['B2', 'B3', 'B4', 'B5'].map((lane) => b1.alongside(lane))];
      // A does not ask for its lock inside a transaction: it does it right, and takes its time before it begins.
      await a.buysUntil('inside');
      for (const caller of callers) caller.buy({ insideTransaction: true });
      await scene.until(() => callers.every((caller) => caller.did('wait')), LEASE_MS);
      b1.process.tell({ do: 'ask database' });
      await sleep(limitMs * 1.3);
      scene.mark('the transaction time-out has passed');
      a.goOn();
      await scene.allEnd(callers, LEASE_MS * 4);
      await scene.until(() => scene.answers.length > 0, LEASE_MS);
      const [answerMs = Infinity] = scene.answers;
      const answered = `a query that needs no lock was answered after ${inSeconds(answerMs)}`;
      if (answerMs < limitMs) scene.saw(answered);
      else scene.saw(`all 5 connections waited for the lock, ${answered}`, 'call failed');
    },
  },
  {
    id: 'failover',
    name: 'main Redis killed before it replicated',
    short: 'failover',
    how: 'A takes the lock while nothing reaches the replica; the main server is killed, the replica becomes main, and B asks there',
    needs: ON_REDIS,
    goal: { sold: 10, refused: 1 },
    async play(scene) {
      const pair = await scene.replicatedRedis();
      const [a, b] = await scene.callers(['A', 'B']);
      await pair.stopReplication();
      await a.buysUntil('inside', 'renewal'); // all of it happens before A's next renewal
      await pair.failOver();
      scene.disturb('main killed, replica promoted: it has never heard of the lock');
      b.buy();
      if (await b.holds(LEASE_MS * 2)) await b.ends(LEASE_MS * 0.2);
      scene.mark('A finishes its work');
      if (scene.stage.id === OURS) {
        scene.saw(
          'two may hold it for a moment, and the fence lets them write one after the other',
        );
      }
      a.goOn();
    },
  },
  {
    id: 'hang',
    name: 'Redis hangs',
    short: 'Redis hangs',
    how: 'Redis is paused (SIGSTOP) for longer than the lock lasts, while A holds and B waits; then it goes on',
    needs: ON_REDIS,
    goal: { sold: 10, refused: 1 },
    async play(scene) {
      const server = await scene.ownRedis();
      const [a, b] = await scene.callers(['A', 'B']);
      await a.buysUntil('inside');
      await b.asks();
      await b.holds(LEASE_MS * 0.1); // no command of B is on its way any more
      server.pause();
      scene.disturb('Redis paused');
      await sleep(LEASE_MS * 1.3);
      server.resume();
      scene.disturb('Redis goes on');
      if (!(await b.stillWaits())) await b.ends(LEASE_MS * 0.2);
      scene.mark('A finishes its work');
      a.goOn();
    },
  },
  ...SEVERAL_ACCIDENTS,
];
