import { Global, Injectable, Module } from '@nestjs/common';

/** The settings in the environment. They are read once, at the start; a wrong value ends the start. */
@Injectable()
export class Settings {
  readonly redisUrl = process.env['REDIS_URL'] ?? 'redis://localhost:6379';
  /** How long it takes to write a report. */
  readonly reportTakesMs = wholeNumber('REPORT_TAKES_MS', 500);
  /** What becomes of a report whose process was killed: nothing, or another process writes it. */
  readonly ifKilled = oneOf('REPORT_IF_KILLED', ['leave', 'take-over']);
}

@Global()
@Module({ providers: [Settings], exports: [Settings] })
export class SettingsModule {}

function wholeNumber(name: string, otherwise: number): number {
  const text = process.env[name];
  if (text === undefined || text === '') return otherwise;
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new Error(`${name} is '${text}': set it to a whole number of milliseconds`);
}

/** The first one is the default. */
function oneOf<const T extends string>(name: string, values: readonly [T, ...T[]]): T {
  const text = process.env[name];
  if (text === undefined || text === '') return values[0];
  const value = values.find((candidate) => candidate === text);
  if (value !== undefined) return value;
  throw new Error(`${name} is '${text}': set it to ${values.join(' or ')}`);
}
