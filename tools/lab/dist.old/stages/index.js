import { noLock } from './01-no-lock.js';
import { inProcessMutex } from './02-in-process-mutex.js';
import { rowLock } from './03-row-lock.js';
import { versionColumn } from './04-version-column.js';
import { getThenSet } from './05-get-then-set.js';
import { setnxDel } from './06-setnx-del.js';
import { setnxExpire } from './07-setnx-expire.js';
import { expiryInValue } from './08-expiry-in-value.js';
import { expiryOverwritten } from './09-expiry-overwritten.js';
import { getset } from './10-getset.js';
import { ownerId } from './11-owner-id.js';
import { watchMultiExec } from './12-watch-multi-exec.js';
import { luaRelease } from './13-lua-release.js';
import { renewalAndWakeUp } from './14-renewal-and-wake-up.js';
import { watchdog } from './15-watchdog.js';
import { lockPlus } from './16-lock-plus.js';
import { nestjsLocked } from './17-nestjs-locked.js';
/** The sixteen steps of the articles, and ours. */
export const STAGES = [
    noLock,
    inProcessMutex,
    rowLock,
    versionColumn,
    getThenSet,
    setnxDel,
    setnxExpire,
    expiryInValue,
    expiryOverwritten,
    getset,
    ownerId,
    watchMultiExec,
    luaRelease,
    renewalAndWakeUp,
    watchdog,
    lockPlus,
    nestjsLocked,
];
//# sourceMappingURL=index.js.map