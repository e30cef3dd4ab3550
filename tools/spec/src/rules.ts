/** The rules of the protocol. Each can be switched off, to see what it prevents (`mutants.ts`). */
export const RULES = {
  // ---- of the server
  'only the owner releases': 'RELEASE changes nothing unless the lock has the token of the sender',
  'leases expire': 'the lock never exists without expiry',
  'nobody overtakes the queue': 'a free lock goes to the first live waiter',
  'only listeners are granted': 'a waiter whose process does not listen is dropped, not granted',
  'the next waiter is told': 'the next waiter is told how long the short lease ahead of it lasts',
  'an own lock is recognised': 'a repeated command finds that the lock already has its token',
  'a re-check rejoins': 'a waiter that was dropped returns to the queue at its next re-check',
  'leaving hands on': 'a waiter that leaves after its grant hands the lock to the next one',
  'numbers are reserved': 'the server stores a fencing number that the holder cannot exceed',
  // ---- of the client
  'a lease counts from sending': 'not from the answer to its command',
  'a grant counts from its request': 'not from the arrival of its message',
  'a deadline ends the hold': 'whatever the server says afterwards',
  'a re-check brings a new token': 'a late grant to the old token is not taken for a new one',
  'a re-queue brings a new token': 'a late answer about the old token is not taken for a new one',
  'a token in flight is known': 'a message about a re-check under way is not about a lost lease',
  'waiters re-check': 'after the lease ahead of them, and after the safety interval',
  'a new subscription re-checks': 'messages may have been lost while there was none',
  'a grant may come first': 'before the answer to the command that asked for it',
  'a notice may come first': 'before the answer that says how long to wait',
} as const;

export type Rule = keyof typeof RULES;

/** What holds in every state. The first two are promises to the users, the others are how they are kept. */
export type Invariant =
  | 'one holder at a time'
  | 'fences rise'
  | 'first come, first served'
  | 'a grant reaches a listener'
  | 'every waiter is served'
  | 'every waiter is served in time';

/** What a recorded history must keep besides: each step of it is one that the specification allows. */
export type RuleOfHistories =
  | Exclude<Invariant, 'every waiter is served' | 'every waiter is served in time'>
  | 'one token, one tenure'
  | 'as specified';
