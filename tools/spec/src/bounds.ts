import type { Bounds } from './world.js';

const TWO = {
  calls: [1, 1],
  rechecks: 1,
  faults: {},
  leaseMs: 2,
  acceptMs: 1,
  safetyMs: 3,
  local: false,
  time: true,
  within: 3,
} satisfies Bounds;
/** A lease of one tick: so much can happen within a few steps. */
const SHORT = { ...TWO, leaseMs: 1, safetyMs: 1, within: 2 } satisfies Bounds;
/** Time stands still: only the order matters. */
const ORDER = { ...TWO, time: false } satisfies Bounds;
/** Leases are so long that it shows whether anybody waits for the end of one. */
const LONG = {
  ...ORDER,
  calls: [1, 1, 1],
  leaseMs: 10,
  acceptMs: 2,
  safetyMs: 20,
  within: 2,
} satisfies Bounds;

/** A few processes and faults suffice to show why each rule is there. */
export const BOUNDS = {
  'two processes': { ...TWO, calls: [2, 1] },
  'two processes, short leases': { ...SHORT, calls: [2, 1] },
  'a lost message': { ...TWO, faults: { 'lose a message': 1 } },
  'a crash': { ...TWO, faults: { crash: 1 } },
  'three processes and a crash': { ...SHORT, calls: [1, 1, 1], faults: { crash: 1 } },
  'a lost subscription': { ...TWO, faults: { 'lose the subscription': 1 } },
  'lost answers': { ...SHORT, faults: { 'lose the answers': 1 } },
  'the order of three': { ...ORDER, calls: [2, 1, 1], local: true },
  'the order, with lost answers': {
    ...ORDER,
    calls: [2, 2],
    local: true,
    faults: { 'lose the answers': 1 },
  },
  'the order, with two who give up': {
    ...ORDER,
    calls: [2, 2],
    local: true,
    faults: { 'give up': 2 },
  },
  'long leases, and a waiter crashes': { ...LONG, faults: { crash: 1 }, onlyWaiters: true },
  'long leases, and a waiter hangs': { ...LONG, faults: { hang: 1 }, onlyWaiters: true },
  'long leases, and a waiter is deaf': {
    ...LONG,
    faults: { 'lose the subscription': 1 },
    onlyWaiters: true,
  },
  'long leases, and one gives up': { ...LONG, faults: { 'give up': 1 } },
  'long leases, and lost answers': { ...LONG, faults: { 'lose the answers': 1 } },
  'fencing numbers': {
    ...TWO,
    calls: [3, 1],
    local: true,
    rechecks: 0,
    faults: { crash: 1 },
    fenceTicks: 5,
  },
  'fencing numbers of all keys': {
    ...TWO,
    calls: [3, 1],
    local: true,
    rechecks: 0,
    faults: { crash: 1 },
    fenceTicks: 5,
    sharedFence: true,
  },
} as const satisfies Readonly<Record<string, Bounds>>;

export type BoundsName = keyof typeof BOUNDS;

export const BOUNDS_NAMES = Object.keys(BOUNDS) as readonly BoundsName[];
