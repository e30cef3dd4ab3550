import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { runCommand } from '../support/run-command.js';

/** A Prisma client, or a transaction of one. */
export interface PrismaTx {
  $queryRawUnsafe(sql: string, ...params: unknown[]): Promise<unknown>;
}

export interface PrismaClient extends PrismaTx {
  $transaction<R>(body: (tx: PrismaTx) => Promise<R>, options?: object): Promise<R>;
  $disconnect(): Promise<void>;
}

export interface GeneratedPrisma {
  readonly PrismaClient: new (options: object) => PrismaClient;
  readonly remove: () => void;
}

const ROOT = join(__dirname, '../..');
/** In node_modules, so that Jest does not transform it. */
const CACHE = join(ROOT, 'node_modules/.cache/nestjs-locked');

const schema = (output: string): string => `
  generator client {
    provider = "prisma-client-js"
    output   = "${output}"
  }
  datasource db {
    provider = "postgresql"
  }
  model Stock {
    id       String @id
    quantity Int
    @@map("stock")
  }
`;

/**
 * Generates a client for the stock, as applications do before they start. Nothing is downloaded: a client with a driver
 * adapter needs no engine, and the generator does not run the schema engine, so any program can stand in for it.
 */
export async function generatePrismaClient(): Promise<GeneratedPrisma> {
  mkdirSync(CACHE, { recursive: true });
  const folder = mkdtempSync(join(CACHE, 'prisma-'));
  writeFileSync(join(folder, 'schema.prisma'), schema(join(folder, 'client')));
  const cli = join(ROOT, 'node_modules/prisma/build/index.js');
  const { code, stderr } = await runCommand(
    process.execPath,
    [cli, 'generate', '--schema', join(folder, 'schema.prisma'), '--no-hints'],
    folder,
    { PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' },
  );
  if (code !== 0) throw new Error(`prisma generate: ${stderr}`);
  const client = createRequire(__filename)(join(folder, 'client')) as GeneratedPrisma;
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  return { PrismaClient: client.PrismaClient, remove };
}
