import { ChildProgram } from 'kit';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { FromHolder, ToHolder } from '../holder-process.js';
import { type Outcome, played, type PlayedSide, type Scenario } from '../scenario.js';
import { type HoldChecked, openChecked } from '../stage/checked-holds.js';
import { settled } from '../stage/settled.js';
import {
  QUORUM_LEASE_MS,
  QUORUM_SETTINGS,
  type QuorumLibrary,
  threeServers,
} from '../stage/three-servers.js';

const PROGRAM = fileURLToPath(new URL('../holder-process.js', import.meta.url));
const PAUSE_MS = QUORUM_LEASE_MS + 2_000;
const OTHER_LIMIT_MS = 12_000;

interface TwoProcesses {
  readonly holder: ChildProgram<ToHolder, FromHolder>;
  /** The same library, in this process. */
  readonly other: HoldChecked;
  readonly register: Register;
}

/** What the lock protects: a number outside Redis, which each holder reads and then writes. */
class Register {
  value = 0;
  writes = 0;
  refused = 0;
  #highest = 0;

  /** @param isFenced whether it refuses a number below one that it has seen */
  constructor(private readonly isFenced: boolean) {}

  write(value: number, fence?: number): void {
    if (this.isFenced && (fence === undefined || fence < this.#highest)) {
      this.refused += 1;
      return;
    }
    this.#highest = Math.max(this.#highest, fence ?? 0);
    this.value = value;
    this.writes += 1;
  }
}

interface Variant {
  /** Its check asks the servers. */
  readonly asksServers?: boolean;
  readonly isFenced?: boolean;
}

function side(
  library: QuorumLibrary,
  settings: string,
  checksLast: boolean,
  { asksServers = false, isFenced = false }: Variant = {},
): Omit<PlayedSide<TwoProcesses>, 'expected'> {
  return {
    library,
    settings,
    async open(server) {
      const servers = await threeServers(server);
      const ports = servers.map(({ port }) => port);
      const holder = new ChildProgram<ToHolder, FromHolder>(PROGRAM, {
        args: [library, String(asksServers), String(checksLast), ...ports.map(String)],
        stdout: 'ignore',
      });
      await holder.nextMessage();
      const other = await openChecked(library, ports, asksServers);
      return { holder, other, register: new Register(isFenced) };
    },
  };
}

async function play({ holder, other, register }: TwoProcesses): Promise<Outcome> {
  const inside = holder.nextMessage();
  holder.tell('go on');
  await inside;
  holder.tell(register.value);
  await sleep(500);
  holder.pause();
  await sleep(PAUSE_MS);
  const second = await settled(
    other(async ({ fence }) => register.write(register.value + 1, fence)),
    OTHER_LIMIT_MS,
  );
  if (second.state !== 'fulfilled') {
    return { holds: false, figure: 'the second was not served', words: '' };
  }
  const late = holder.nextMessage();
  holder.tell('go on');
  holder.resume();
  const said = await late;
  if (said.say === 'write') register.write(said.value, said.fence);
  const lost = register.writes - register.value;
  const words = said.say === 'write' ? 'Its check said nothing' : 'Its check said that it was lost';
  return {
    holds: lost === 0,
    figure: lost === 0 ? 'no write was lost' : `${lost} of ${register.writes} writes was lost`,
    words: `${words}${register.refused > 0 ? ', and its write was refused' : ''}.`,
  };
}

const SAFE = '✓ no write was lost';
const LOST = '✗ 1 of 2 writes was lost';

interface AllExpected {
  readonly ours: string;
  readonly redlock: string | readonly string[];
  readonly others: string;
  readonly extended: string;
}

function sides(
  checksLast: boolean,
  { ours, redlock: ofRedlock, others, extended }: AllExpected,
): Scenario<TwoProcesses>['sides'] {
  const { redlock, 'redis-semaphore': semaphore, 'redlock-universal': universal } = QUORUM_SETTINGS;
  const own = QUORUM_SETTINGS['nestjs-locked'];
  const asksServers = { asksServers: true };
  return [
    played(ofRedlock, side('redlock', `${redlock} Its check is \`signal.aborted\`.`, checksLast)),
    played(
      extended,
      side(
        'redlock',
        'Its check is `lock.extend`, with the defaults and 5 s.',
        checksLast,
        asksServers,
      ),
      '`extend`',
    ),
    played(
      others,
      side('redis-semaphore', `${semaphore} Its check is \`isAcquired\`.`, checksLast),
    ),
    played(
      others,
      side('redlock-universal', `${universal} Its check is \`signal.aborted\`.`, checksLast),
    ),
    played(
      extended,
      side(
        'redlock-universal',
        'Its check is `lock.extend`, with the defaults and 5 s.',
        checksLast,
        asksServers,
      ),
      '`extend`',
    ),
    played(ours, side('nestjs-locked', `${own} Its check is \`assertHeld\`.`, checksLast)),
    played(
      SAFE,
      side(
        'nestjs-locked',
        `${own} The register refuses a \`fencingToken\` that is lower than one before.`,
        checksLast,
        { isFenced: true },
      ),
      'fence',
    ),
  ];
}

const WORKLOAD =
  'Three independent servers. A process takes a lock with a lease of 5 s, reads a number outside Redis, and is paused ' +
  `(SIGSTOP) for ${PAUSE_MS / 1_000} s; meanwhile, another one takes the lock, and adds one to the number.`;

export const quorumPause: Scenario<TwoProcesses> = {
  title: 'A process is paused for longer than its lease',
  workload:
    `${WORKLOAD} Then the first goes on, asks the library whether it still has the lock, and if so writes what it has read, ` +
    'plus one. ✓ is that no write is lost.',
  limitMs: 60_000,
  play,
  // The timer of redlock and what the process waits for are due at the same time.
  sides: sides(true, { redlock: [SAFE, LOST], others: LOST, extended: SAFE, ours: SAFE }),
};

export const quorumPauseAfterCheck: Scenario<TwoProcesses> = {
  title: 'A process is paused between its last check and its write',
  workload:
    `${WORKLOAD} Before its pause, it has asked the library whether it still has the lock. After it, it writes what it has ` +
    'read, plus one. ✓ is that no write is lost.',
  limitMs: 60_000,
  play,
  sides: sides(false, { redlock: LOST, others: LOST, extended: LOST, ours: LOST }),
};
