import type { Breaks, ServerBreak } from './breaks.js';
import type { Reply } from './reply.js';
import { nameOfScript } from './script-names.js';

interface QuorumBreak extends ServerBreak {
  /** Whether only the first node does so. */
  readonly isOfOne?: boolean;
}

/** Where a script that gives back a vote is told which numbers were used. */
const USED = 2;

/** What the nodes of a quorum do not do, on purpose, to see whether the checker notices. */
export const QUORUM_BREAKS = {
  /** One vote less is enough: what one node answers is taken for a yes. */
  'too few votes': {
    isOfOne: true,
    script: ({ script, args, micros, run }) => {
      const name = nameOfScript(script);
      return name === 'acquire' || name === 'renew' ? asYes(run(args), micros) : undefined;
    },
  },
  /** A node votes as soon as it has started, whatever it has forgotten, and nobody sees that it is another run. */
  'young nodes vote': { hidesStarts: true },
  /** No node remembers which numbers it has voted for. */
  'numbers by the clock': {
    command: ({ name, args: [key = ''] }) =>
      name === 'GET' && key.endsWith(':fence') ? null : undefined,
  },
  /** What was used goes back with the rest, as if nobody had used it. */
  'used numbers are given back': {
    script: ({ script, args, run }) =>
      nameOfScript(script) === 'give back' && args[USED] !== ''
        ? run(args.map((value, i) => (i === USED ? '1' : value)))
        : undefined,
  },
} satisfies Readonly<Record<string, QuorumBreak>>;

export type QuorumBreakName = keyof typeof QUORUM_BREAKS;

export const QUORUM_BREAK_NAMES = Object.keys(QUORUM_BREAKS) as readonly QuorumBreakName[];

export function quorumBreaksNamed(name: QuorumBreakName): Breaks {
  const chosen: QuorumBreak = QUORUM_BREAKS[name];
  return (node) => (chosen.isOfOne === true && node > 0 ? undefined : chosen);
}

/** A refusal of a vote, or of renewals. */
function asYes(reply: Reply, micros: number): Reply {
  if (!Array.isArray(reply)) return reply;
  const entries = reply as readonly Reply[];
  const [first] = entries;
  if (first === 'no') return ['vote', String(micros), String(micros + 1_000_000), 0];
  const renewed = (entry: Reply): Reply =>
    Array.isArray(entry) && entry[0] === 'no' ? ['renewed', entry[1] as Reply] : entry;
  return Array.isArray(first) ? entries.map(renewed) : entries;
}
