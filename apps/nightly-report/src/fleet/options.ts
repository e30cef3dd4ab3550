import { parseArgs } from 'node:util';

export interface FleetOptions {
  /** After how many ticks everything is stopped; 0 = when it is interrupted. */
  readonly ticks: number;
  /** How far the clocks of the three processes are apart. */
  readonly skewMs: number;
  /** Whether a process is killed while it writes a report, and another one started. */
  readonly kill: boolean;
  readonly ifKilled: string;
}

export function readOptions(args: string[]): FleetOptions {
  const { values } = parseArgs({
    args,
    options: {
      ticks: { type: 'string', default: '0' },
      'skew-ms': { type: 'string', default: '0' },
      kill: { type: 'boolean', default: false },
      'if-killed': { type: 'string', default: 'leave' },
    },
  });
  return {
    ticks: wholeNumber('--ticks', values.ticks),
    skewMs: wholeNumber('--skew-ms', values['skew-ms']),
    kill: values.kill,
    ifKilled: values['if-killed'],
  };
}

function wholeNumber(name: string, text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new Error(`${name} is '${text}': give a whole number, for example ${name} 1000`);
}
