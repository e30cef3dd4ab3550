/** What the answers of one node mean. */
import { expect, it } from '@jest/globals';
import { QuorumReplies } from '../../libs/nestjs-locked/src/redis/quorum/quorum-replies.js';

it('that a vote was not ours is no answer to what takes it back, if that may have run before [G50]', () => {
  const replies = new QuorumReplies('redis://a:1', 0);
  expect(replies.givenBack([0, ''], true).wasOurs).toBe(true);
  expect(replies.givenBack([0, ''], false).wasOurs).toBe(false);
  expect(replies.givenBack([1, ''], false).wasOurs).toBe(true);
});
