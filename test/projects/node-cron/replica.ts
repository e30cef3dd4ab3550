/** A process with the coordinator of the page. Prints each tick that it runs, and what node-cron says about others. */
import { NestFactory } from '@nestjs/core';
import { LockService, RedisLockModule } from 'nestjs-locked';
import { type RunCoordinator, schedule } from 'node-cron';

import 'reflect-metadata';

// As a variable, because this file is there only in the project into which this one is copied.
const page = './lock-run-coordinator.js';
const { LockRunCoordinator } = (await import(page)) as {
  LockRunCoordinator: new (locks: LockService) => RunCoordinator;
};

const connection = process.env['REDIS_URL'] ?? '';
const app = await NestFactory.createApplicationContext(
  RedisLockModule.forRoot({ connection, shutdownMs: 1_000 }),
  { logger: false },
);
const task = schedule('* * * * * *', ({ dateLocalIso }) => print('run', dateLocalIso), {
  name: 'every second',
  distributed: true,
  runCoordinator: new LockRunCoordinator(app.get(LockService)),
  logger: { info() {}, warn() {}, debug() {}, error: (message) => print('error', String(message)) },
});
task.on('execution:skipped', ({ reason, dateLocalIso }) => print(String(reason), dateLocalIso));
print('ready', '');

process.on('disconnect', () => {
  void task.destroy();
  void app.close();
});

function print(what: string, tick: string): void {
  process.stdout.write(`${JSON.stringify({ what, tick })}\n`);
}
