import type { BoundsName } from './bounds.js';
import type { Invariant, Rule } from './rules.js';

/** What goes wrong without each rule, and within which bounds that shows first. */
export const MUTANTS: Readonly<Record<Rule, readonly [within: BoundsName, Invariant]>> = {
  'only the owner releases': ['two processes', 'one holder at a time'],
  'leases expire': ['a crash', 'every waiter is served'],
  'nobody overtakes the queue': ['two processes', 'first come, first served'],
  'only listeners are granted': ['a lost subscription', 'a grant reaches a listener'],
  'the next waiter is told': ['long leases, and a waiter hangs', 'every waiter is served in time'],
  'an own lock is recognised': ['long leases, and lost answers', 'every waiter is served in time'],
  'a re-check rejoins': ['a lost subscription', 'every waiter is served'],
  'leaving hands on': ['long leases, and one gives up', 'every waiter is served in time'],
  'numbers are reserved': ['fencing numbers', 'fences rise'],
  'a lease counts from sending': ['two processes', 'one holder at a time'],
  'a grant counts from its request': ['two processes', 'one holder at a time'],
  'a deadline ends the hold': ['two processes', 'one holder at a time'],
  'a re-check brings a new token': ['two processes, short leases', 'one holder at a time'],
  'a re-queue brings a new token': ['the order, with lost answers', 'one holder at a time'],
  'a token in flight is known': ['two processes, short leases', 'one holder at a time'],
  'waiters re-check': ['a lost message', 'every waiter is served'],
  'a new subscription re-checks': [
    'long leases, and a waiter is deaf',
    'every waiter is served in time',
  ],
  'a grant may come first': ['long leases, and one gives up', 'every waiter is served in time'],
  'a notice may come first': ['long leases, and a waiter hangs', 'every waiter is served in time'],
};
