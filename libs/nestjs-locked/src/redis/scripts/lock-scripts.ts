import { acquireScript } from './acquire.lua.js';
import { acquireTogetherScript } from './acquire-together.lua.js';
import { adoptScript } from './adopt.lua.js';
import { answerQuestionScript } from './answer-question.lua.js';
import { askHolderScript } from './ask-holder.lua.js';
import { batchScript } from './batch.lua.js';
import { inspectScript } from './inspect.lua.js';
import { leaveScript } from './leave.lua.js';
import { probeScript } from './probe.lua.js';
import { prolongScript } from './prolong.lua.js';
import { recheckScript } from './recheck.lua.js';
import type { RedisScript } from './redis-script.js';
import { releaseScript } from './release.lua.js';
import { renewScript } from './renew.lua.js';
import { revokeScript } from './revoke.lua.js';
import type { ScriptSettings } from './script-settings.js';
import { shortReleaseScript } from './short-release.lua.js';
import { shortRenewScript } from './short-renew.lua.js';
import { takeBackScript } from './take-back.lua.js';

/** The scripts that every layout of the locks has. Those that are missing are used with our own layout only. */
export type LockScriptSet = Omit<LockScripts, OwnScript> & Partial<Pick<LockScripts, OwnScript>>;
type OwnScript = 'adopt' | 'batch' | 'shortRenew' | 'shortRelease';

/** The scripts of one lock service, with its settings written into them. */
export class LockScripts {
  readonly acquire: RedisScript;
  readonly acquireTogether: RedisScript;
  readonly recheck: RedisScript;
  readonly renew: RedisScript;
  readonly adopt: RedisScript;
  readonly release: RedisScript;
  readonly leave: RedisScript;
  readonly takeBack: RedisScript;
  /** Undefined in a cluster, whose keys are in different slots. */
  readonly batch: RedisScript | undefined;
  /** Used for locks that share a fence, as those of a cluster do not. */
  readonly prolong = prolongScript;
  readonly revoke: RedisScript;
  readonly inspect = inspectScript;
  readonly askHolder: RedisScript;
  readonly answerQuestion: RedisScript;
  /** Only a cluster needs the short scripts. */
  readonly shortRenew = shortRenewScript;
  readonly shortRelease = shortReleaseScript;
  readonly probe: RedisScript;

  constructor(settings: ScriptSettings) {
    this.acquire = acquireScript(settings);
    this.acquireTogether = acquireTogetherScript(settings);
    this.recheck = recheckScript(settings);
    this.renew = renewScript(settings);
    this.adopt = adoptScript(settings);
    this.release = releaseScript(settings);
    this.leave = leaveScript(settings);
    this.takeBack = takeBackScript(settings);
    this.batch = settings.inCluster ? undefined : batchScript(settings);
    this.revoke = revokeScript(settings);
    this.askHolder = askHolderScript(settings);
    this.answerQuestion = answerQuestionScript(settings);
    this.probe = probeScript(settings);
  }

  get all(): readonly RedisScript[] {
    const { shortRenew, shortRelease, batch, prolong, ...others } = this;
    const onlyHere = batch === undefined ? [shortRenew, shortRelease] : [batch, prolong];
    return [...(Object.values(others) as RedisScript[]), ...onlyHere];
  }
}
