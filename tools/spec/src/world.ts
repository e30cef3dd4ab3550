import { Client, newProcess, type Process, type Sent, type Terms } from './client.js';
import type { Invariant, Rule } from './rules.js';
import {
  type Command,
  type KeyState,
  type Message,
  NOTHING,
  type Reply,
  run,
  type Waiter,
} from './server.js';

export const FAULTS = [
  'crash',
  'hang',
  'lose a message',
  'lose the subscription',
  'lose the answers',
  'give up',
] as const;
export type Fault = (typeof FAULTS)[number];

/** What is explored: so many processes, with so many calls each, and so many faults. */
export interface Bounds extends Omit<Terms, 'block' | 'broken'> {
  readonly calls: readonly number[];
  /** How often each waiter may re-check while others do anything. */
  readonly rechecks: number;
  readonly faults: Partial<Record<Fault, number>>;
  /** Whether faults hit only processes that wait in the queue. */
  readonly onlyWaiters?: boolean;
  /** Whether time passes while states are explored; it always passes while waiters are served. */
  readonly time: boolean;
  /** Fencing numbers are modelled for so many ticks. */
  readonly fenceTicks?: number;
  /** Whether all keys share the fence. @default each has its own */
  readonly sharedFence?: boolean;
  /** Ticks within which a waiter must be served if nothing else goes wrong. */
  readonly within: number;
}

/** One key, its processes, and what is on its way between them. Each process has three channels, and none overtakes. */
export interface World {
  key: KeyState;
  readonly processes: Process[];
  readonly sent: Sent[][];
  readonly answers: { sent: Sent; reply: Reply }[][];
  readonly inbox: Message[][];
  readonly faults: Partial<Record<Fault, number>>;
  arrivals: number;
  clock: number;
  highest: number;
  broken?: Invariant | undefined;
}

export interface Step {
  readonly text: string;
  readonly kind: 'time' | 'fault' | 'step';
  readonly take: (world: World) => void;
}

const NAMES = ['A', 'B', 'C'];
const BLOCK = 2;

export function beginning({ calls, rechecks, faults }: Bounds): World {
  const none = (): [] => [];
  return {
    key: NOTHING,
    processes: calls.map((count) => newProcess(count, rechecks)),
    sent: calls.map(none),
    answers: calls.map(none),
    inbox: calls.map(none),
    faults: { ...faults },
    arrivals: 0,
    clock: 0,
    highest: 0,
  };
}

/** @param served whether waiters are being served: every timer fires then */
export function stepsFrom(world: World, bounds: Bounds, broken?: Rule, served = false): Step[] {
  const steps: Step[] = [];
  const add = (text: string, take: Step['take'], kind: Step['kind'] = 'step'): void => {
    steps.push({ text, kind, take });
  };
  world.processes.forEach((me, i) => {
    const name = NAMES[i] ?? '';
    const act = (text: string, what: (client: Client) => void): void =>
      add(`${name} ${text}`, (next) => what(clientOf(next, i, bounds, broken)));
    const fault = (what: Fault, text: string, take: (me: Process, next: World) => void): void => {
      if (served || (world.faults[what] ?? 0) === 0) return;
      if (bounds.onlyWaiters === true && me.phase !== 'waiting') return;
      const hit = (next: World): void => {
        next.faults[what] = (next.faults[what] ?? 0) - 1;
        take(next.processes[i] as Process, next);
      };
      add(text, hit, 'fault');
    };
    const [sent] = world.sent[i] ?? [];
    const [answer] = world.answers[i] ?? [];
    const [message] = world.inbox[i] ?? [];
    if (sent) add(`Redis runs ${shown(sent.command)}`, (next) => execute(next, i, bounds, broken));
    if (me.life !== 'up') return;
    if (answer) {
      act(`is answered: ${answer.reply.kind}, to ${shown(answer.sent.command)}`, (client) =>
        client.answer(answer.sent, answer.reply),
      );
      afterwards(steps, (next) => void next.answers[i]?.shift());
    }
    if (message) {
      act(`reads the message: ${message.kind} ${message.token}`, (client) => client.read(message));
      afterwards(steps, (next) => void next.inbox[i]?.shift());
      fault('lose a message', `the message ${message.kind} ${message.token} is lost`, (_, next) => {
        next.inbox[i]?.shift();
      });
    }
    if (!me.listens) act('subscribes again', (client) => client.subscribed());
    if (me.phase === 'idle' && me.calls > 0) act('asks', (client) => client.ask());
    if (me.phase === 'waiting' && me.recheckIn === 0 && (served || me.rechecks > 0)) {
      act('re-checks', (client) => client.recheck());
      afterwards(steps, (next) => void ((next.processes[i] as Process).rechecks -= 1));
    }
    if (me.phase === 'holding') {
      if (me.deadline > 0 || broken === 'a deadline ends the hold') {
        act('ends its call', (client) => client.finish());
        if (!served && bounds.time && !me.renewing && me.deadline < bounds.leaseMs) {
          act('renews', (client) => client.renew());
        }
      } else act('loses the lease at its deadline', (client) => client.lose());
    }
    fault('crash', `${name} crashes`, (dead, next) => {
      Object.assign(dead, newProcess(0, 0), { life: 'dead', listens: false });
      forget(next, i);
    });
    fault('hang', `${name} stands still for ever, and stays subscribed`, (hung, next) => {
      Object.assign(hung, { life: 'hung', calls: 0 });
      forget(next, i);
    });
    if (me.listens) {
      fault('lose the subscription', `${name} loses its subscription`, (deaf, next) => {
        deaf.listens = false;
        next.inbox[i] = [];
      });
    }
    if (answer) {
      fault('lose the answers', `answers to ${name} are lost; it sends again`, (_, next) => {
        next.sent[i]?.unshift(...(next.answers[i]?.splice(0) ?? []).map((lost) => lost.sent));
      });
    }
    if (me.phase === 'waiting' || me.phase === 'asking') {
      fault('give up', `${name} gives up`, (_, next) => clientOf(next, i, bounds, broken).giveUp());
    }
  });
  const isTime = bounds.fenceTicks === undefined || world.clock < bounds.fenceTicks;
  if (served || (bounds.time && isTime))
    add('time passes', (next) => tick(next, bounds, broken), 'time');
  return steps;
}

/** What happens to the channel from which the last step takes something. */
function afterwards(steps: Step[], change: (next: World) => void): void {
  const step = steps.pop() as Step;
  const take = (next: World): void => {
    change(next);
    step.take(next);
  };
  steps.push({ ...step, take });
}

function clientOf(next: World, i: number, bounds: Bounds, broken: Rule | undefined): Client {
  const me = next.processes[i] as Process;
  const block = bounds.fenceTicks === undefined ? 0 : BLOCK;
  const send = (sent: Sent): void => void next.sent[i]?.push(sent);
  return new Client(NAMES[i] ?? '', me, { ...bounds, block, broken }, send, (number) => {
    if (bounds.fenceTicks === undefined || me.deadline === 0) return;
    if (number <= next.highest) next.broken = 'fences rise';
    next.highest = Math.max(next.highest, number);
  });
}

function execute(next: World, i: number, bounds: Bounds, broken: Rule | undefined): void {
  const sent = next.sent[i]?.shift() as Sent;
  const isFenced = bounds.fenceTicks !== undefined;
  const processOf = (token: string): number => NAMES.indexOf(token.charAt(0));
  const listens = (token: string): boolean => next.processes[processOf(token)]?.listens === true;
  const { key: before } = next;
  const { key, reply, told } = run(before, sent.command, {
    now: 0,
    acceptMs: bounds.acceptMs,
    lapsedMs: 0, // it concerns only who is first among those who were dropped
    listens,
    polls: () => false,
    arrival: () => (next.arrivals += 1),
    mint: (least) => {
      const first = isFenced ? Math.max(least, next.clock) : 0;
      return [first, isFenced ? first + BLOCK : 0];
    },
    reserve: (least) => least,
    givenBack: bounds.sharedFence === true ? undefined : BLOCK,
    broken,
  });
  next.key = key;
  for (const message of told) {
    if (listens(message.token)) next.inbox[processOf(message.token)]?.push(message);
  }
  next.broken ??= brokenBy(before, key, told, listens, processOf, sent.command);
  const isRead = next.processes[i]?.life === 'up';
  const says = reply.kind !== 'released' && reply.kind !== 'left';
  if (isRead && (says || (bounds.faults['lose the answers'] ?? 0) > 0)) {
    next.answers[i]?.push({ sent, reply });
  }
}

/**
 * What a script must never do, whatever its rules are.
 * @param command what was run: whoever leaves waits no more
 * @param claimed the place of a new owner that was not in the queue, but whose call has waited
 */
export function brokenBy(
  before: KeyState,
  after: KeyState,
  told: readonly Message[],
  listens: (token: string) => boolean,
  processOf: (token: string) => unknown,
  command: Command,
  claimed = Infinity,
): 'a grant reaches a listener' | 'first come, first served' | undefined {
  const owner = after.lock?.token;
  if (owner === undefined || owner === before.lock?.token) return undefined;
  if (owner.startsWith('kept:')) return undefined; // nobody has it
  const isGrant = told.some(({ kind, token }) => kind === 'grant' && token === owner);
  if (isGrant && !listens(owner)) return 'a grant reaches a listener';
  const isOfOwner = ({ token }: Waiter): boolean => processOf(token) === processOf(owner);
  // A command that arrived late may have left another place of the same process behind.
  const mine = Math.min(claimed, before.queue.find(isOfOwner)?.place ?? Infinity);
  const isLeaving = command.kind === 'leave' || command.kind === 'take back';
  const leavers = isLeaving ? [command.token, command.other] : [];
  const isFirst = before.queue.every(
    (waiter) =>
      isOfOwner(waiter) ||
      waiter.place >= mine ||
      !listens(waiter.token) ||
      leavers.includes(waiter.token),
  );
  return isFirst ? undefined : 'first come, first served';
}

export function invariantBroken(world: World, broken?: Rule): Invariant | undefined {
  if (world.broken !== undefined) return world.broken;
  const believers = world.processes.filter(
    ({ life, phase, deadline }) =>
      life !== 'dead' &&
      phase === 'holding' &&
      (deadline > 0 || broken === 'a deadline ends the hold'),
  );
  return believers.length > 1 ? 'one holder at a time' : undefined;
}

/** Somebody wants the key, or will. */
export function isWaiting({ processes }: World): boolean {
  return processes.some(
    ({ life, phase, calls }) => life === 'up' && phase !== 'holding' && calls > 0,
  );
}

function tick(next: World, bounds: Bounds, broken: Rule | undefined): void {
  const down = (ms: number): number => Math.max(0, ms - 1);
  const { lock } = next.key;
  const until = broken === 'leases expire' ? (lock?.until ?? 0) : down(lock?.until ?? 0);
  next.key = {
    ...next.key,
    lock: lock === null || until === 0 ? null : { ...lock, until },
  };
  for (const me of next.processes) {
    me.ends = down(me.ends);
    me.pendingEnds = down(me.pendingEnds);
    me.deadline = down(me.deadline);
    if (me.recheckIn !== null) me.recheckIn = down(me.recheckIn);
    if (me.recheckBy !== null) me.recheckBy = down(me.recheckBy);
  }
  for (const sent of next.sent.flat()) sent.ends = down(sent.ends);
  for (const { sent } of next.answers.flat()) sent.ends = down(sent.ends);
  if (bounds.fenceTicks !== undefined) next.clock += 1;
}

/** Only the order of the places matters, so that histories that differ in nothing else lead to the same state. */
export function renumber(world: World): void {
  const { processes, key, sent, answers } = world;
  const commands = [...sent.flat(), ...answers.flat().map((each) => each.sent)];
  const replies = answers.flat().map(({ reply }) => reply);
  const holders = [
    ...processes,
    ...key.queue,
    ...commands.map(({ command }) => command),
    ...replies,
  ];
  const placed = holders.filter((it) => 'place' in it && (it.place ?? 0) > 0) as {
    place: number;
  }[];
  const order = [...new Set(placed.map(({ place }) => place))].sort((a, b) => a - b);
  for (const it of new Set(placed)) it.place = order.indexOf(it.place) + 1;
  world.arrivals = order.length;
}

function forget(next: World, i: number): void {
  next.answers[i] = [];
  next.inbox[i] = [];
}

function shown(command: Command): string {
  const { kind, token } = command;
  const other =
    'newToken' in command ? command.newToken : 'other' in command ? command.other : undefined;
  return other === undefined ? `${kind} ${token}` : `${kind} ${token} → ${other}`;
}
