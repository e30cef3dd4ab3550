import { makeUnrecorded } from './test-locks.js';

/** The locks of tests that were given none of their own. They share these as processes share one Redis. */
export const sharedTestLocks = makeUnrecorded();
