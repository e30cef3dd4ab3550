import { type AskedHolder, HolderQuestions } from '../core/deadlocks/holder-questions.js';
import { LockConfigError, LockKeyError, LockStoreError } from '../core/lock.errors.js';
import { newProcessId } from '../core/store/lease-token.js';
import type { LockInspector } from '../core/store/lock-inspector.js';
import { systemClock } from '../core/time/clock.js';
import { RedisLockInspector } from '../redis/redis-lock-inspector.js';
import { answerQuestionScript } from '../redis/scripts/answer-question.lua.js';
import { askHolderScript } from '../redis/scripts/ask-holder.lua.js';
import { inspectScript } from '../redis/scripts/inspect.lua.js';
import { RedisKeys } from '../redis/scripts/redis-keys.js';
import { revokeScript } from '../redis/scripts/revoke.lua.js';
import { type CommandLine, readCommandLine } from './command-line.js';
import { EXIT_CODE, type ExitCode } from './exit-code.js';
import { graph } from './graph.js';
import { HELP } from './help.js';
import { LockReader } from './lock-reader.js';
import { inspect, list, release } from './operator-commands.js';
import { OperatorInbox } from './operator-inbox.js';
import { OperatorServers } from './operator-servers.js';
import { shownText } from './shown-text.js';
import { UsageError } from './usage-error.js';
import { watch } from './watch.js';

/**
 * Does what the arguments ask for. What goes wrong is printed.
 * @param redisUrl the variable REDIS_URL
 */
export async function runCommand(
  args: readonly string[],
  redisUrl: string | undefined,
): Promise<ExitCode> {
  try {
    const asked = readCommandLine(args, redisUrl);
    if (asked.name === 'help') console.log(HELP);
    else return await carriedOut(asked);
    return EXIT_CODE.done;
  } catch (error) {
    return reported(error);
  }
}

async function carriedOut(asked: Exclude<CommandLine, { name: 'help' }>): Promise<ExitCode> {
  const servers = new OperatorServers(asked.redis);
  try {
    await servers.connect();
    // A revocation reads no fence, so that all of its keys can have the hash tag of the lock.
    const keys = new RedisKeys(asked.keyPrefix, true);
    const { isCluster: inCluster, connectionPrefix } = servers;
    const { inboxPrefix } = keys;
    const settings = { inCluster, inboxPrefix, acceptMs: 0, fenceKeepMs: 0 };
    const processId = newProcessId(); // the name of an inbox, if processes are asked
    const inspector = new RedisLockInspector({
      servers,
      clock: systemClock,
      keys,
      scripts: {
        inspect: inspectScript,
        revoke: revokeScript(settings),
        askHolder: askHolderScript(settings),
        answerQuestion: answerQuestionScript(settings),
      },
      processId,
      connectionPrefix,
    });
    const reader = new LockReader(servers, keys, inspector);
    const inbox = inboxPrefix + processId;
    const askHolders = (key: string): Promise<readonly AskedHolder[]> =>
      withAnswers(servers, inspector, inbox, (questions) => questions.ask(key));
    switch (asked.name) {
      case 'ls':
        return await list(reader, asked);
      case 'watch':
        await watch(reader, servers.address, asked);
        return EXIT_CODE.done;
      case 'graph':
        return await withAnswers(servers, inspector, inbox, (questions) =>
          graph(reader, questions, asked),
        );
      case 'inspect':
        return await inspect(reader, askHolders, asked);
      case 'release':
        return await release(reader, askHolders, inspector, asked);
    }
  } finally {
    servers.close();
  }
}

/** @param inbox of the process in whose name the inspector asks */
async function withAnswers<T>(
  servers: OperatorServers,
  inspector: LockInspector,
  inbox: string,
  ask: (questions: HolderQuestions) => Promise<T>,
): Promise<T> {
  const questions = new HolderQuestions(inspector, systemClock, () => '');
  const answers = new OperatorInbox(servers.anotherConnection(), (it) => questions.answer(it));
  try {
    const nodes = await servers.nodeIds();
    await answers.open(nodes === undefined ? [inbox] : nodes.map((node) => `${inbox}@${node}`));
    return await ask(questions);
  } finally {
    answers.close();
  }
}

function reported(error: unknown): ExitCode {
  const isMistake = error instanceof LockKeyError || error instanceof LockConfigError;
  if (error instanceof UsageError || isMistake) {
    console.error(shownText(error.message));
    console.error('npx nestjs-locked --help says more.');
    return EXIT_CODE.wrongUse;
  }
  if (error instanceof LockStoreError) console.error(shownText(error.message));
  else console.error(error); // a defect of this program, which its stack locates
  return EXIT_CODE.failed;
}
