import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import type { ScriptSettings } from './script-settings.js';

/** Answers a question of `askHolderScript`. All functions except those of Redis and Lua are in `protocolLua`. */
export const answerQuestionScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'answer a question about',
    `
-- KEYS lock, queue, fence, lapsed · ARGV[1] the process that has asked · ARGV[2] the id of the question
-- ARGV[3] the answer
${protocolLua(settings)}
return redis.call('PUBLISH', inboxOf(ARGV[1]), 'a ' .. ARGV[2] .. ' ' .. ARGV[3])
`,
  );
