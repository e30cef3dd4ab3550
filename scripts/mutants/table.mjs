/**
 * One-line mutants of the engine and its scripts. Each breaks one rule (`docs/protocol-rules.md` has most of them).
 *
 * - `from`, `to`: the exact text, and what takes its place. `after`: a text before it, where it stands more than once.
 * - `breaks`: the rule.
 * - `specs`: the spec files that are to see it; few, so that it is quick.
 * - `torture`: commands of which one is to see it within three seeds, for what happens only between processes.
 */

const CORE = 'libs/nestjs-locked/src/core/';
const REDIS = 'libs/nestjs-locked/src/redis/';
const SCRIPTS = 'libs/nestjs-locked/src/redis/scripts/';

const LEASES = ['test/core/lease.spec.ts', 'test/core/lease-rules.spec.ts'];
const OPTIONS = ['test/core/lock-options.spec.ts'];
const RE_ENTRY = ['test/core/re-entry.spec.ts'];
const LUA = ['test/redis/scripts.spec.ts'];
const STORE = ['test/redis/redis-lock-store.spec.ts'];

/** Whoever has a fixed lease, or a process that stands still, relies on the deadline alone. */
const DEADLINES =
  '--stage single --seconds 20 --processes 4 --only fixed-lease,acquire,with-lock,slow-answers,worker-paused';
const FORGETTING =
  '--stage single --seconds 26 --processes 4 --only long-lease,acquire,redis-restarted-empty';
const HOLDS =
  '--stage single --seconds 15 --processes 4 --only max-hold,acquire,with-lock --without faults';
const SEVERAL =
  '--stage single --seconds 10 --processes 4 --only several-keys,acquire --without faults';

export const TABLE = [
  // ---- deadlines ------------------------------------------------------------------------------------------
  {
    name: 'deadline counted from the reply of a renewal',
    file: `${CORE}lease.ts`,
    from: 'sentAt + leaseMs - driftMarginMs(leaseMs)',
    to: 'this.#context.clock.now() + leaseMs - driftMarginMs(leaseMs)',
    breaks: 'a lease counts from the sending of the renewal that was answered',
    specs: LEASES,
    torture: [DEADLINES],
  },
  {
    name: 'deadline counted from the reply of the grant',
    file: `${CORE}lease.ts`,
    from: 'grant.introducedAt + grant.lengthMs - driftMarginMs(grant.lengthMs)',
    to: 'context.clock.now() + grant.lengthMs - driftMarginMs(grant.lengthMs)',
    breaks: 'a lease counts from the introduction of its token',
    specs: LEASES,
    torture: [DEADLINES],
  },
  {
    name: 'no margin for drift',
    file: `${CORE}lease-timing.ts`,
    from: 'return Math.max(5, leaseMs / 100);',
    to: 'return 0;',
    breaks: 'a lease is considered ended a little before the store does',
    specs: ['test/core/lease-timing.spec.ts', ...LEASES],
  },
  {
    name: 'late renewal that revives',
    file: `${CORE}lease.ts`,
    after: 'onRenewReply(command: RenewCommand',
    from: 'this.#context.scheduler.catchUp();',
    to: '',
    breaks: 'once the deadline has passed nothing revives a lease',
    specs: LEASES,
    torture: [DEADLINES],
  },
  {
    name: 'deadline not looked at by the holder',
    file: `${CORE}lease.ts`,
    from: "if (now >= this.#deadline) return this.#lose('expired');",
    to: '',
    breaks: 'at the deadline the signal aborts, whatever Redis does',
    specs: LEASES,
  },
  {
    name: 'fixed lease that is not confirmed',
    file: `${CORE}lease.ts`,
    from: 'const needed = renew ? leaseMs * share : leaseMs * 0.5;',
    to: 'const needed = leaseMs * share;',
    breaks: 'a fixed lease has the length that was asked for',
    specs: [...OPTIONS, ...LEASES],
    torture: ['--stage single --seconds 15 --processes 4 --only fixed-lease --without faults'],
  },
  {
    name: 'lease handed out with any rest',
    file: `${CORE}lease.ts`,
    from: 'remainingMs < needed ||',
    to: '',
    breaks: 'no hold begins with less than half of its lease',
    specs: LEASES,
  },
  {
    name: 'machine that slept trusted',
    file: `${CORE}lease.ts`,
    from: 'this.#suspectSince !== undefined ||',
    to: '',
    breaks: 'when the machine may have slept, nothing is handed out before a renewal',
    specs: LEASES,
  },

  // ---- passing on -----------------------------------------------------------------------------------------
  {
    name: 'local hand-over after max-hold',
    file: `${CORE}lease.ts`,
    from: "if (now >= this.#holdEnd) return this.#lose('max-hold');",
    to: "if (now >= this.#holdEnd) { this.#hold?.lose('max-hold'); return this.#handOut(this.#queue.first); }",
    breaks: 'doubt ends sharing: nobody gets a lease whose work still runs',
    specs: LEASES,
    torture: [HOLDS],
  },
  {
    name: 'fixed lease passed on',
    file: `${CORE}lease.ts`,
    from: 'if (!hold.options.renew || !next.options.renew) return false;',
    to: '',
    breaks: 'a fixed lease is shared with nobody',
    specs: OPTIONS,
  },
  {
    name: 'hand-overs without a limit',
    file: `${CORE}lease.ts`,
    from: 'return !this.#handovers.isSpent;',
    to: 'return true;',
    breaks: 'once another process waits, local hand-overs are bounded',
    specs: LEASES,
  },
  {
    name: 'hand-overs bounded in number alone',
    file: `${CORE}handover-budget.ts`,
    from: 'return this.#left <= 0 || this.#clock.now() >= this.#until;',
    to: 'return this.#left <= 0;',
    breaks: 'once another process waits, local hand-overs are bounded in time',
    specs: LEASES,
  },
  {
    name: 'doubtful lease passed on',
    file: `${CORE}lease.ts`,
    from: 'if (this.#commitUnknown) return this.#runOut();',
    to: '',
    breaks: 'a lease whose transaction was perhaps committed runs out',
    specs: OPTIONS,
  },
  {
    name: 'block of fencing tokens exceeded',
    file: `${CORE}lease.ts`,
    from: 'this.#used >= this.#blockEnd',
    to: 'false',
    breaks: 'Redis stores a number that the holder cannot exceed',
    specs: LEASES,
  },
  {
    name: 'holdAtLeastMs forgotten',
    file: `${CORE}lease.ts`,
    from: 'if (keepMs > 0) return this.#release(Math.ceil(keepMs));',
    to: '',
    breaks: 'the key stays taken for holdAtLeastMs',
    specs: OPTIONS,
    torture: [
      '--stage single --seconds 10 --processes 4 --only hold-at-least,acquire --without faults',
    ],
  },
  {
    name: 'unused lease kept although it is wanted',
    file: `${CORE}lease.ts`,
    after: "case 'wanted':",
    from: 'return this.giveUp();',
    to: 'return;',
    breaks: 'an unused lease is given up as soon as another process asks',
    specs: LEASES,
  },
  {
    name: 'last caller served first',
    file: `${CORE}local-queue.ts`,
    from: 'for (const caller of this.#callers) return caller;',
    to: 'for (const caller of [...this.#callers].reverse()) return caller;',
    breaks: 'callers of one process are served in order of arrival',
    specs: LEASES,
  },

  // ---- losing ---------------------------------------------------------------------------------------------
  {
    name: 'lost lease never released',
    file: `${CORE}lease.ts`,
    from: 'this.#return.afterLoss(this.#used, this.#deadline + this.#leaseMs);',
    to: 'this.#return.forget();',
    breaks: 'a lost lease is released when its work has settled',
    specs: LEASES,
    torture: [HOLDS],
  },
  {
    name: 'operator ignored',
    file: `${CORE}lease.ts`,
    from: "if (this.#state === 'held') this.#lose('stolen');",
    to: '',
    breaks: 'the holder is told when an operator takes its key',
    specs: LEASES,
  },
  {
    name: 'no look after a reconnect, at leases',
    file: `${CORE}local-queues.ts`,
    from: 'lease?.lookAgain();',
    to: 'void lease;',
    breaks: 'after a reconnect all leases are renewed at once',
    specs: LEASES,
    torture: [FORGETTING],
  },
  {
    name: 'no look after a reconnect, by waiters',
    file: `${CORE}local-queues.ts`,
    from: 'request?.lookAgain();',
    to: 'void request;',
    breaks: 'a waiter looks again as soon as it hears again',
    specs: LEASES,
  },
  {
    name: 'hold that is lost and says that it is held',
    file: `${CORE}hold.ts`,
    from: 'this.#users === 0 || this.#lost !== undefined',
    to: 'this.#users === 0',
    breaks: 'isHeld and assertHeld() know of a loss',
    specs: LEASES,
  },

  // ---- asking ---------------------------------------------------------------------------------------------
  {
    name: 'unknown attempt not taken back',
    file: `${CORE}lease-request.ts`,
    after: '#abandon(unknown: Unknown): void {',
    from: 'this.#takeBack(this.#tokens(), this.#asked.at);',
    to: '',
    breaks: 'what an unanswered command may have left is taken back',
    specs: LEASES,
  },
  {
    name: 'wait given up without leaving the queue',
    file: `${CORE}lease-request.ts`,
    after: 'leave(): void {',
    from: 'this.#takeBack(this.#tokens(), this.#asked.at);',
    to: '',
    breaks: 'whoever gives up takes back every token it has in use',
    specs: LEASES,
  },
  {
    name: 'notice that overtakes the grant forgotten',
    file: `${CORE}lease-request.ts`,
    from: 'this.#wanted = true;',
    to: '',
    breaks: 'what was said about a token on its way is remembered',
    specs: LEASES,
  },
  {
    name: 'next in the queue does not look in time',
    file: `${CORE}lease-request.ts`,
    from: 'this.#recheck.notLaterThan(message.ms);',
    to: '',
    breaks: 'whoever is next looks when the short lease before it ends',
    specs: LEASES,
  },
  {
    name: 'waiter that relies on messages alone',
    file: `${CORE}recheck-timer.ts`,
    from: 'Math.min(remainingMs, safetyIntervalMs(options.leaseMs))',
    to: 'remainingMs',
    breaks: 'a waiter relies on messages for a bounded time',
    specs: LEASES,
  },
  {
    name: 'waiter without an inbox that does not look',
    file: `${CORE}recheck-timer.ts`,
    from: 'if (!store.inboxReady) intervalMs',
    to: 'if (false) intervalMs',
    breaks: 'while no message can arrive a waiter looks every 250 ms',
    specs: LEASES,
  },
  {
    name: 'clean-up that is not repeated',
    file: `${CORE}clean-up.ts`,
    from: 'if (this.#closed || this.#clock.now() >= until) return;',
    to: 'return;',
    breaks: 'clean-up is repeated until it is answered, or the lease has ended',
    specs: LEASES,
  },

  // ---- calls inside of calls --------------------------------------------------------------------------------
  {
    name: 'branch that joins a hold after its loss',
    file: `${CORE}acquisition.ts`,
    from: 'if (parent.hold.isHeld) return new Section(parent.hold, parent);',
    to: 'if (parent !== undefined) return new Section(parent.hold, parent);',
    breaks: 'a branch whose turn comes after the hold was lost asks for one of its own',
    specs: RE_ENTRY,
    torture: ['--stage single --seconds 12 --processes 4 --only branches,acquire --without faults'],
  },
  {
    name: 'branches at the same time',
    file: `${CORE}turns.ts`,
    after: 'if (!this.#taken) {',
    from: 'this.#taken = true;',
    to: 'this.#taken = false;',
    breaks: 'branches of one call take turns',
    specs: RE_ENTRY,
    torture: ['--stage single --seconds 8 --processes 3 --only branches --without faults'],
  },
  {
    name: 'hold that ends with its root',
    file: `${CORE}hold.ts`,
    from: 'if (this.#users > 0) {',
    to: 'if (false) {',
    breaks: 'a hold ends when the last call inside of it has ended',
    specs: RE_ENTRY,
  },
  {
    name: 'released hold that is joined',
    file: `${CORE}lock-scope.ts`,
    from: 'return section.isOpen && section.hold.isHeld;',
    to: 'return section.isOpen;',
    breaks: 'only a hold that is held can be joined',
    specs: RE_ENTRY,
  },

  // ---- scripts: taking --------------------------------------------------------------------------------------
  {
    name: 'together: the first key only',
    file: `${SCRIPTS}acquire-together.lua.ts`,
    after: 'local replies = {}',
    from: 'for i = 1, #KEYS, 3 do',
    to: 'for i = 1, 1, 3 do',
    breaks: 'several keys are taken only if all of them are free',
    specs: [...LUA, ...STORE],
    torture: [SEVERAL],
  },
  {
    name: 'together: the queue ignored',
    file: `${SCRIPTS}acquire-together.lua.ts`,
    from: "if not mine and (holder or redis.call('EXISTS', KEYS[i + 1]) == 1) then return replies end",
    to: 'if not mine and holder then return replies end',
    breaks: 'several keys are taken only if nobody waits for any of them',
    specs: [...LUA, ...STORE],
  },
  {
    name: 'free lock taken from those who wait',
    file: `${SCRIPTS}protocol.lua.ts`,
    from: "if not value and redis.call('EXISTS', queue) == 0 then return grant(me, leaseMs) end",
    to: 'if not value then return grant(me, leaseMs) end',
    breaks: 'nobody overtakes those who wait',
    specs: LUA,
  },
  {
    name: 'own-token branch that shortens',
    file: `${SCRIPTS}protocol.lua.ts`,
    from: "return grant(token, text(math.max(redis.call('PTTL', lock), tonumber(leaseMs))))",
    to: 'return grant(token, leaseMs)',
    breaks: 'no command shortens a lease',
    specs: LUA,
  },
  {
    name: 'place in the queue lost with a re-check',
    file: `${SCRIPTS}protocol.lua.ts`,
    from: "local score = tonumber(redis.call('ZSCORE', queue, old) or keptScore)",
    to: 'local score = nil',
    breaks: 'a re-check keeps the place in the queue',
    specs: LUA,
  },
  {
    name: 'single try that overtakes',
    file: `${SCRIPTS}protocol.lua.ts`,
    from: "elseif grantNext(nil) == 'nobody' then",
    to: 'else',
    breaks: 'a single try does not overtake the queue',
    specs: LUA,
  },
  {
    name: 'holder not told that it is wanted',
    file: `${SCRIPTS}protocol.lua.ts`,
    after: 'local foreign = 0',
    from: "tell(value, 'w ' .. value .. ' ' .. name)",
    to: '',
    breaks: 'the holder is told that somebody waits',
    specs: LUA,
  },

  // ---- scripts: handing over --------------------------------------------------------------------------------
  {
    name: 'grant to a dead process',
    file: `${SCRIPTS}protocol.lua.ts`,
    from: "if redis.call('PUBSUB', 'NUMSUB', inboxOf(token))[2] > 0 then",
    to: 'if true then',
    breaks: 'a waiter is given the key only if its process listens',
    specs: LUA,
  },
  {
    name: 'grant that cannot be announced is not undone',
    file: `${SCRIPTS}protocol.lua.ts`,
    after: 'acceptMs, name }',
    from: "redis.call('DEL', lock)",
    to: '',
    breaks: 'a grant that cannot be announced is undone in the same script',
    specs: LUA,
  },
  {
    name: 'head not told of the short lease before it',
    file: `${SCRIPTS}protocol.lua.ts`,
    from: 'tellHead(acceptMs)',
    to: '',
    breaks: 'the next in the queue is told when the short lease before it ends',
    specs: LUA,
  },
  {
    name: 'release that does not ask whose lock it is',
    file: `${SCRIPTS}release.lua.ts`,
    from: "if redis.call('GET', lock) ~= token then",
    to: 'if false then',
    breaks: 'a release touches only what is its own',
    specs: LUA,
  },
  {
    name: 'release that hands over to nobody',
    file: `${SCRIPTS}release.lua.ts`,
    from: 'else grantNext(nil) end',
    to: 'end',
    breaks: 'a release gives the key to the next waiter',
    specs: LUA,
  },
  {
    name: 'leaving that does not hand on',
    file: `${SCRIPTS}leave.lua.ts`,
    from: 'grantNext(nil)',
    to: '',
    breaks: 'a grant that crosses the leaving of its waiter is handed on',
    specs: LUA,
  },
  {
    name: 'operator who does not tell the holder',
    file: `${SCRIPTS}revoke.lua.ts`,
    from: "if isOurs(value) then tell(value, 'r ' .. value .. ' ' .. name) end",
    to: '',
    breaks: 'the holder is told when an operator takes its key',
    specs: LUA,
  },

  // ---- scripts: renewing, fencing -----------------------------------------------------------------------------
  {
    name: 'renewal that does not ask whose lock it is',
    file: `${SCRIPTS}renew.lua.ts`,
    from: "if redis.pcall('GET', lock) == token then",
    to: "if redis.pcall('GET', lock) then",
    breaks: 'a renewal prolongs only what is its own',
    specs: LUA,
  },
  {
    name: 'renewal that shortens',
    file: `${SCRIPTS}renew.lua.ts`,
    from: "math.max(redis.call('PTTL', lock), leaseMs)",
    to: 'leaseMs',
    breaks: 'no renewal shortens a lease',
    specs: LUA,
  },
  {
    name: 'renewal that ignores what was used',
    file: `${SCRIPTS}renew.lua.ts`,
    from: 'used + BLOCK',
    to: '0',
    breaks: 'Redis stores a number that the holder cannot exceed',
    specs: LUA,
  },
  {
    name: 'fencing tokens from the clock alone',
    file: `${SCRIPTS}protocol.lua.ts`,
    from: 'local first = math.max(stored + 1, now())',
    to: 'local first = now()',
    breaks: 'fencing tokens rise over a clock that was set back',
    specs: LUA,
  },
  {
    name: 'fencing tokens without the clock',
    file: `${SCRIPTS}protocol.lua.ts`,
    from: 'local first = math.max(stored + 1, now())',
    to: 'local first = stored + 1',
    breaks: 'fencing tokens rise over a Redis that lost its data',
    specs: LUA,
  },
  {
    name: 'together: fencing tokens from the clock alone',
    file: `${SCRIPTS}acquire-together.lua.ts`,
    from: 'local first = math.max(stored + 1, now)',
    to: 'local first = now',
    breaks: 'fencing tokens rise over a clock that was set back',
    specs: [...LUA, ...STORE],
  },

  // ---- the store ----------------------------------------------------------------------------------------------
  {
    name: 'reconnect not told to the engine',
    file: `${REDIS}redis-lock-store.ts`,
    after: 'readonly #onReady = (): void => {',
    from: 'this.#listener?.reconnected();',
    to: '',
    breaks: 'after a reconnect all leases and waiters look at once',
    specs: STORE,
  },
  {
    name: 'script sent whole although nobody waits for it',
    file: `${REDIS}redis-script.ts`,
    from: 'if (!isUnknownScript(error) || !isWanted()) throw error;',
    to: 'if (!isUnknownScript(error)) throw error;',
    breaks: 'a command that was given up is not sent behind its own clean-up',
    specs: STORE,
  },
  {
    name: 'inbox that does not notice its silence',
    file: `${REDIS}redis-inbox.ts`,
    from: 'if (this.#ready) this.#reconnect();',
    to: '',
    breaks: 'the inbox is asked whether it lives, and connected again if not',
    specs: STORE,
  },
];
