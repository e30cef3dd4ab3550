import { makeUnrecorded } from './test-locks.js';

/** The default locks of tests, which share them as processes share one Redis. */
export const sharedTestLocks = makeUnrecorded();
