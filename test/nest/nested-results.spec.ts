/** Results that continue, made by locked methods nested in others with the same key. */
import { beforeEach, expect, it } from '@jest/globals';
import { Injectable, StreamableFile } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Locked, LockService, RedisLockModule } from 'nestjs-locked';
import { firstValueFrom, interval, map, Observable, take, toArray } from 'rxjs';
import { Readable } from 'node:stream';
import { LOG_CONTEXT } from '../../libs/nestjs-locked/src/core/log-context.js';
import { afterTest } from '../support/after-test.js';
import { RecordingLogger } from '../support/recording-logger.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();

@Injectable()
class Reports {
  readonly held: unknown[] = [];

  constructor(private readonly locks: LockService) {}

  @Locked('report:<id>')
  inner(id: string): Observable<string> {
    return interval(1).pipe(map(() => id));
  }

  @Locked('report:<id>')
  outer(id: string): Observable<string> {
    return this.inner(id);
  }

  @Locked('report:<id>')
  mapped(id: string): Observable<string> {
    return this.inner(id).pipe(map((value) => value));
  }

  @Locked('report:<id>')
  async promised(id: string): Promise<Observable<string>> {
    return this.inner(id);
  }

  @Locked('report:<id>', { waitMs: 0 })
  async row(id: string): Promise<string> {
    return id;
  }

  @Locked('report:<id>')
  async stream(id: string): Promise<Readable> {
    return Readable.from(this.#rows(id));
  }

  @Locked('report:<id>')
  async file(id: string): Promise<StreamableFile> {
    return new StreamableFile(Readable.from(this.#rows(id)));
  }

  async *#rows(id: string): AsyncGenerator<string> {
    try {
      this.#note(id);
      yield await this.row(id);
      this.#note(id);
      yield await this.row(id);
    } finally {
      this.#note(id);
      await this.row(id); // cleans up
    }
  }

  #note(id: string): void {
    this.held.push(this.locks.current(`report:${id}`)?.isHeld);
  }
}

let reports: Reports;
let locks: LockService;
let id: string;
let logger: RecordingLogger;
beforeEach(async () => {
  logger = new RecordingLogger();
  const root = {
    module: class Root {},
    imports: [RedisLockModule.forRoot({ connection: redis.url })],
    providers: [Reports],
  };
  const app = await NestFactory.createApplicationContext(root, { logger, abortOnError: false });
  afterTest(() => app.close());
  reports = app.get(Reports);
  locks = app.get(LockService);
  id = uniqueKey();
});

/** The key is free again, and no warning was logged about calls that were not awaited. */
async function expectQuietRelease(): Promise<void> {
  await locks.withLock(`report:${id}`, { waitMs: 30_000 }, () => {});
  expect(logger.lines(LOG_CONTEXT).filter((line) => !line.startsWith('log '))).toEqual([]);
}

it.each(['outer', 'mapped'] as const)(
  'an unsubscribed Observable (%s) ends its nested hold before its own',
  async (name) => {
    expect(await firstValueFrom(reports[name](id))).toBe(id);
    await expectQuietRelease();
    expect(await firstValueFrom(reports[name](id).pipe(take(2), toArray()))).toEqual([id, id]);
    await expectQuietRelease();
  },
);

it('an unsubscribed Observable of a Promise ends its nested hold before its own', async () => {
  expect(await firstValueFrom(await reports.promised(id))).toBe(id);
  await expectQuietRelease();
});

it('a stream of Node.js reads and cleans up inside its hold', async () => {
  const rows: unknown[] = [];
  for await (const row of await reports.stream(id)) rows.push(row);
  expect(rows).toEqual([id, id]);
  expect(reports.held).toEqual([true, true, true]);
  await expectQuietRelease();
});

it('a stream in a file that is left early cleans up inside its hold', async () => {
  const file = await reports.file(id);
  for await (const row of file.getStream()) {
    expect(row).toBe(id);
    break;
  }
  expect(reports.held[0]).toBe(true);
  expect(reports.held.at(-1)).toBe(true);
  await expectQuietRelease();
});
