import { expect, it } from '@jest/globals';
import { Controller } from '@nestjs/common';
import { EventPattern, MessagePattern } from '@nestjs/microservices';
import {
  eventPatternOf,
  EventPatterns,
} from '../../libs/nestjs-locked/src/nest/requests/event-patterns.js';
import { startNest } from '../support/nest-app.js';

@Controller()
class StockController {
  @EventPattern('stock.*')
  onStock(_data: unknown): void {}

  @MessagePattern('take')
  take(_data: unknown): void {}
}

it('the input of a handler with wildcards counts as an event; a known message does not', async () => {
  await startNest({ controllers: [StockController], providers: [EventPatterns] });
  expect(eventPatternOf({ getSubject: () => 'stock.taken' })).toBe('stock.taken');
  expect(eventPatternOf({ getSubject: () => 'take' })).toBeUndefined();
});
