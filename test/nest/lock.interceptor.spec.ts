import { describe, expect, it } from '@jest/globals';
import { Controller, Get, UseInterceptors } from '@nestjs/common';
import { LockInterceptor, LockService } from 'nestjs-locked';
import { LockTestingModule } from 'nestjs-locked/testing';
import { startHttp } from '../support/nest-app.js';

let runs = 0;

@Controller()
class ReportController {
  @Get('skipped')
  @UseInterceptors(LockInterceptor('report', { waitMs: 0, onBusy: 'skip' }))
  skipped(): string {
    return `run ${++runs}`;
  }

  @Get('substituted')
  @UseInterceptors(LockInterceptor('report', { waitMs: 0, onBusy: ({ key }) => `${key} is busy` }))
  substituted(): string {
    return `run ${++runs}`;
  }
}

describe('a route under a LockInterceptor, while somebody else has the lock', () => {
  it("answers with nothing for 'skip', and with what a function gives, and does not run", async () => {
    const { app, url } = await startHttp({
      imports: [LockTestingModule.forRoot()],
      controllers: [ReportController],
    });
    const answer = async (path: string): Promise<[number, string]> => {
      const response = await fetch(`${url}/${path}`);
      return [response.status, await response.text()];
    };
    const lock = await app.get(LockService).acquire('report');
    expect(await answer('skipped')).toEqual([200, '']);
    expect(await answer('substituted')).toEqual([200, 'report is busy']);
    expect(runs).toBe(0);
    await lock.release();
    expect(await answer('skipped')).toEqual([200, 'run 1']);
    expect(await answer('substituted')).toEqual([200, 'run 2']);
  });
});
