import { expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { LockKeyError, LockNotAcquiredError, LockStoreError } from 'nestjs-locked';
import { LOG_CONTEXT } from '../../libs/nestjs-locked/src/core/log-context.js';
import { AnswerLog } from '../../libs/nestjs-locked/src/nest/requests/answer-log.js';
import { afterTest } from '../support/after-test.js';
import { FakeClock } from '../support/fake-clock.js';
import { RecordingLogger } from '../support/recording-logger.js';

function record(): RecordingLogger {
  const log = new RecordingLogger();
  Logger.overrideLogger(log);
  afterTest(() => Logger.overrideLogger(false));
  return log;
}

it('an outage is logged once a minute, with the number of answers in between', async () => {
  const [log, clock] = [record(), new FakeClock()];
  const answers = new AnswerLog(clock);
  for (let request = 0; request < 3; request++) {
    answers.answered(new LockStoreError('no answer', 'key'), 503);
  }
  expect(log.lines(LOG_CONTEXT)).toEqual(['error no answer']);
  await clock.advance(60_000);
  answers.answered(new LockStoreError('still none', 'key'), 503);
  expect(log.lines(LOG_CONTEXT).slice(1)).toEqual([
    'error still none (2 more since the last line like this)',
  ]);
});

it('a busy lock is not logged; a mistake is, unless the client has made it', () => {
  const [log, answers] = [record(), new AnswerLog(new FakeClock())];
  answers.answered(new LockNotAcquiredError('busy', 'key', 0), 423);
  answers.answered(new LockNotAcquiredError('busy', 'key', 0), 503);
  answers.answered(new LockKeyError('no id'), 400);
  expect(log.lines(LOG_CONTEXT)).toEqual([]);
  answers.answered(new LockKeyError('no id'), 500);
  answers.answered(new LockKeyError('no id'), 500);
  expect(log.lines(LOG_CONTEXT)).toEqual(Array(2).fill('error LockKeyError: no id'));
});

it('an outage does not hide unhandled events', () => {
  const [log, answers] = [record(), new AnswerLog(new FakeClock())];
  answers.answered(new LockStoreError('no answer', 'key'), 503);
  answers.dropped(new LockKeyError('no id'), 'taken');
  answers.dropped(new LockStoreError('no answer', 'key'), 'taken');
  expect(log.lines(LOG_CONTEXT)).toEqual([
    'error no answer',
    expect.stringMatching(
      /^warn Event 'taken' was not handled, and its sender is not told: no answer; /,
    ),
  ]);
});
