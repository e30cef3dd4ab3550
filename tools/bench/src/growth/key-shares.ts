/** How the load is divided among the masters of a Redis Cluster: a key belongs to a slot, and a slot to a master. */

const SLOTS = 16_384;

/** How often which keys are asked for. */
export interface KeyUse {
  readonly keys: number;
  /**
   * The n-th key is asked for in proportion to 1 / n^skew (Zipf's law). 0 is an even load, and 1 is what is often found
   * in nature: the second key half as often as the first one.
   */
  readonly skew: number;
  /** So many of the hottest keys are passed on inside of processes: the server is asked only once for so many holds. */
  readonly hotKeys?: number;
  readonly holdsPerLease?: number;
}

/** Shares of all holds. */
export interface KeyShares {
  /** How many are in the slots below the n-th; the last one is what reaches the servers at all. */
  readonly upTo: readonly number[];
  readonly hottestKey: number;
}

export function keyShares({ keys, skew, hotKeys = 0, holdsPerLease = 1 }: KeyUse): KeyShares {
  const slots = new Float64Array(SLOTS);
  let holds = 0;
  for (let n = 1; n <= keys; n += 1) {
    const asked = n ** -skew;
    const slot = slotOf(String(n));
    slots[slot] = (slots[slot] ?? 0) + (n <= hotKeys ? asked / holdsPerLease : asked);
    holds += asked;
  }
  let below = 0;
  const upTo = [0, ...Array.from(slots, (sent) => (below += sent / holds))];
  return { upTo, hottestKey: 1 / holds };
}

/** The share of the master that has most to do, if each has as many slots as the others. */
export function busiestShare({ upTo }: KeyShares, masters: number): number {
  const below = (master: number): number => upTo[Math.ceil((SLOTS * master) / masters)] ?? NaN;
  return Math.max(...Array.from({ length: masters }, (_, n) => below(n + 1) - below(n)));
}

const CRC = Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = (crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0);
  return crc & 0xffff;
});

/** CRC16 (XMODEM) of an ASCII hash tag, modulo the number of slots, as the specification of Redis Cluster has it. */
export function slotOf(hashTag: string): number {
  let crc = 0;
  for (let n = 0; n < hashTag.length; n += 1) {
    crc = ((crc << 8) ^ (CRC[(crc >> 8) ^ hashTag.charCodeAt(n)] ?? 0)) & 0xffff;
  }
  return crc % SLOTS;
}
