import { Global, Injectable, Module } from '@nestjs/common';
import type { InsideTransaction } from 'nestjs-locked';

/** The settings in the environment. They are read once, at the start; a wrong value ends the start. */
@Injectable()
export class Settings {
  /** 0 means any free port; the log says which one it is. */
  readonly port = wholeNumber('PORT', { otherwise: 3000, min: 0, max: 65_535 });
  readonly host = process.env['HOST'] ?? '0.0.0.0';

  readonly databaseUrl = url('DATABASE_URL', 'postgres://user:password@localhost:5432/shop');
  /** Enough for the work itself: a caller that waits for a lock holds no connection. */
  readonly databasePoolSize = wholeNumber('DATABASE_POOL_SIZE', {
    otherwise: 10,
    min: 1,
    max: 1000,
  });

  readonly redisUrl = url('REDIS_URL', 'redis://localhost:6379');
  /** How long a request waits for its turn before it is answered with 423. */
  readonly lockWaitMs = wholeNumber('LOCK_WAIT_MS', { otherwise: 5_000, min: 0, max: 600_000 });
  /** How long a key stays locked after its holder crashed. */
  readonly lockLeaseMs = wholeNumber('LOCK_LEASE_MS', {
    otherwise: 30_000,
    min: 500,
    max: 600_000,
  });

  /** With it, the user `operator` sees the dashboard at /locks, and may take locks away. Without it, nobody does. */
  readonly locksPassword = process.env['LOCKS_PASSWORD'];

  /** 'right' locks all products of an order before its transaction begins; 'wrong' asks for each lock inside it. */
  readonly ordersNesting = oneOf('ORDERS_NESTING', ['right', 'wrong']);
  /** What becomes of a lock that is asked for inside a transaction. With 'wrong' above, that concerns every order. */
  readonly insideTransaction: InsideTransaction = oneOf('LOCK_INSIDE_TRANSACTION', [
    'reject',
    'restart',
    'join',
  ]);

  /** A pause between reading a stock and saving it, for demonstrations: it makes races more likely. */
  readonly pauseMs = wholeNumber('STOCK_PAUSE_MS', { otherwise: 0, min: 0, max: 60_000 });
}

@Global()
@Module({ providers: [Settings], exports: [Settings] })
export class SettingsModule {}

interface Limits {
  readonly otherwise: number;
  readonly min: number;
  readonly max: number;
}

function wholeNumber(name: string, { otherwise, min, max }: Limits): number {
  const text = process.env[name];
  if (text === undefined || text === '') return otherwise;
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (value >= min && value <= max) return value;
  throw new Error(`${name} is '${text}': set it to a whole number from ${min} to ${max}`);
}

/** The first one is the default. */
function oneOf<const T extends string>(name: string, values: readonly [T, ...T[]]): T {
  const text = process.env[name];
  if (text === undefined || text === '') return values[0];
  const value = values.find((candidate) => candidate === text);
  if (value !== undefined) return value;
  throw new Error(`${name} is '${text}': set it to ${values.join(' or ')}`);
}

function url(name: string, example: string): string {
  const text = process.env[name];
  if (text === undefined || text === '') {
    throw new Error(`${name} is not set: set it to an address like ${example}`);
  }
  if (URL.canParse(text)) return text;
  // The value is not shown: it may contain a password.
  throw new Error(`${name} is not an address: set it to one like ${example}`);
}
